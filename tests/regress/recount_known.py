# SPDX-License-Identifier: MIT
"""The differences that are known, each with its reason: (kinds, views, texts, reason, where).

The first three are regular expressions that have to match all of a kind's name, all of a view's name, and a part of the text.
A row that explains nothing any more is an error: remove it. It is looked for in the short form of the recount if `where` is
"short", in a run of all kinds if it is "all", and nowhere if it is "sometimes", which is chance.
"""
import re

KNOWN = ()


def is_known(kind, view, text):
    """The row that explains a difference, or None."""
    return next((row for row in KNOWN if re.fullmatch(row[0], kind) and re.fullmatch(row[1], view) and re.search(row[2], text)), None)

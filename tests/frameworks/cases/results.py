# SPDX-License-Identifier: MIT
"""The results of rows in words and tables."""


def sentence(result):
    """One line about a row that ran."""
    parts = [f"{result.get('requests', 0)} requests to the driver"]
    for mode, told in result["modes"].items():
        parts.append(f"{mode}: {told['seen']} seen, {told['named']} with the script's line, E {told['e']}")
    if result.get("witness"):
        w = result["witness"]
        parts.append(f"{w['runs']} late runs, {w['reuses']} reuses, {w['premature']} premature")
    if result.get("mutant"):
        parts.append(result["mutant"])
    return "; ".join(parts)

# SPDX-License-Identifier: MIT
"""What `kedge run` puts first on the interpreter's path: comes, waits for frameworks, and is gone.

The interpreter's `site` module imports the first `sitecustomize` that it finds. This one takes its own folder from the path
again, so that imports find what they would find without it, and then is the sitecustomize that the path has otherwise; without
one it fails as `site` expects of a module that is not there. With -S, -I or -E the interpreter does not come here at all.

Any interpreter may come by, since programs start others: the text must be one that Python 2 can read.
"""
import os
import sys

here = os.path.dirname(os.path.abspath(__file__))
if sys.version_info >= (3, 10):
    try:
        import _kedge_import

        _kedge_import.watch(here)
    except Exception:  # whatever it is, it is not the program's trouble
        pass
sys.path[:] = [entry for entry in sys.path if entry != here]
sys.path_importer_cache.pop(here, None)
sys.modules.pop("sitecustomize", None)
import sitecustomize  # noqa: F401,E402  the next one, which takes the place of this one

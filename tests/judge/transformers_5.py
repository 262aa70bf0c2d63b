"""transformers_5.py - torch 2 and transformers 5, whose behaviour some tests count. Not a test itself.

Without them every test that imports this exits with 77, which CTest shows as skipped. The version of transformers is asked first: importing takes
seconds."""
import sys
from importlib import metadata

try:
    if int(metadata.version("transformers").split(".")[0]) < 5:
        raise ImportError("what is counted is that of transformers 5 with torch 2")
    import torch
    import transformers
    if int(torch.__version__.split(".")[0]) < 2:
        raise ImportError("what is counted is that of transformers 5 with torch 2")
except Exception as missing:
    print("SKIPPED: %s (%s)" % (missing, sys.executable))
    sys.exit(77)

transformers.logging.set_verbosity_error()

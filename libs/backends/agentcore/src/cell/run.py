"""Carries out one request for the command tools: base64 of JSON on stdin, the answer on stdout."""
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from cofferdam_cell import cell  # noqa: E402

cell.open_cell(sys.argv[1], sys.stdout)
cell.answer(sys.stdin.read())

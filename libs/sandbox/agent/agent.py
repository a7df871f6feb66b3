"""Entry of the guest agent. Start it with `python3 -I -S agent.py OPTIONS`; frames v1 on stdin and stdout.

The code lives in the package beside this file so that its byte code is cached (a script's never is).
"""
import os
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from cofferdam_agent.main import main  # noqa: E402

main(sys.argv[1:])

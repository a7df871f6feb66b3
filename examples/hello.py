# npx cofferdam run examples/hello.py
import platform

print("Hello from", platform.python_implementation())
{"answer": 6 * 7}

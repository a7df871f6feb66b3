import { spawnSync } from 'node:child_process'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, describe, expect, it } from 'vitest'
import { describeErrorLine, findErrorLine } from './error-line.ts'

const folder = mkdtempSync(join(tmpdir(), 'error-line-'))
afterAll(() => rmSync(folder, { recursive: true }))

/** What an interpreter really prints. The form differs by version. */
function stderrOf(name: string, source: string): string {
  writeFileSync(join(folder, name), source)
  const command = name.endsWith('.py') ? 'python3' : name.endsWith('.sh') ? 'bash' : process.execPath
  const env = { PATH: process.env['PATH'] ?? '/usr/bin:/bin' }
  return spawnSync(command, [name], { cwd: folder, encoding: 'utf8', env }).stderr
}

describe('findErrorLine', () => {
  it.each([
    ['throw.js', '\nfunction f() { throw new Error("boom\\nmore") }\nf()', 'Error: boom', 'throw.js:2'],
    ['value.js', '\nthrow 5', '5', 'value.js:2'],
    ['syntax.js', '\nlet = ;', "SyntaxError: Unexpected token ';'", 'syntax.js:2'],
    [
      'inside.js',
      'console.error("a log")\nrequire("fs").readFileSync("/nope")',
      "Error: ENOENT: no such file or directory, open '/nope'",
      'inside.js:2',
    ],
    ['later.mjs', 'await 1\nawait Promise.reject(new TypeError("later"))', 'TypeError: later', 'later.mjs:2'],
    [
      'assert.js',
      'require("assert").strictEqual(1, 2)',
      'AssertionError [ERR_ASSERTION]: Expected values to be strictly equal: 1 !== 2',
      'assert.js:1',
    ],
    [
      'caused.ts',
      'const inner: Error = new Error("inner")\nthrow new Error("outer", { cause: inner })',
      'Error: outer',
      'caused.ts:2',
    ],
    ['plain.py', 'def f():\n  raise ValueError("one\\ntwo")\nf()', 'ValueError: one', 'plain.py:2'],
    ['syntax.py', 'x = 1\nx = = 2', 'SyntaxError: invalid syntax', 'syntax.py:2'],
    [
      'library.py',
      'import json\njson.loads("{")',
      'json.decoder.JSONDecodeError: Expecting property name enclosed in double quotes: line 1 column 2 (char 1)',
      'library.py:2',
    ],
    [
      'chained.py',
      'try:\n  1/0\nexcept ZeroDivisionError:\n  raise KeyError("x")',
      "KeyError: 'x'",
      'chained.py:4',
    ],
    ['bare.py', 'raise KeyboardInterrupt', 'KeyboardInterrupt', 'bare.py:1'],
    ['missing.sh', 'true\nnope', 'nope: command not found', 'missing.sh:2'],
    ['syntax.sh', 'true\nfi', "syntax error near unexpected token `fi'", 'syntax.sh:2'],
  ])('finds the error of %s and where it is', (name, source, line, place) => {
    const found = findErrorLine(stderrOf(name, source))
    expect(found.line).toBe(line)
    expect(found.place?.endsWith(place), `${found.place}`).toBe(true)
  })

  it.each([
    ['', ''],
    ['a log\nfatal: no such branch\n', 'fatal: no such branch'],
    ['Node.js v26.10.0', 'Node.js v26.10.0'],
    ['^\n\nNode.js v26.10.0', 'Node.js v26.10.0'],
    ['  File "x.py", line 1\n', 'File "x.py", line 1'],
    ['  File "x.py", line 1\n    x\nNot an error at all\nlast', 'last'],
  ])('takes the last line of %j', (stderr, line) => {
    expect(findErrorLine(stderr)).toEqual({ line, place: null })
  })

  // The exact output of libs/sandbox/agent/node-gate/session.cjs.
  it.each([
    ['Uncaught TypeError: no\n    at g (<run 5>:1:22)\n    at <run 5>:2:1\n', 'TypeError: no', '<run 5>:1'],
    [
      'Uncaught <run 3>:1\nconst c = 1\n^\n\n' +
        "SyntaxError: Identifier 'c' has already been declared\n    at <run 3>:1:1\n",
      "SyntaxError: Identifier 'c' has already been declared",
      '<run 3>:1',
    ],
    [
      '<run 8>:1\nif(__filename)\n   ^\n\n' +
        'Uncaught ReferenceError: __filename is not defined\n    at <run 8>:1:4\n',
      'ReferenceError: __filename is not defined',
      '<run 8>:1',
    ],
    ["Uncaught 'a string'\n", "'a string'", null],
  ])('finds the error of a script in the Node that a session keeps: %s', (stderr, line, place) => {
    expect(findErrorLine(stderr)).toEqual({ line, place })
  })

  it.each([
    [
      'Uncaught TypeError: of a page\nTraceback (most recent call last):\n' +
        '  File "a.py", line 2, in <module>\nValueError: x\n',
      'ValueError: x',
    ],
    ['Uncaught TypeError: of a page\nmake: *** [all] Error 2\n', 'make: *** [all] Error 2'],
  ])('does not take a line that a program printed before its end for that error', (stderr, line) => {
    expect(findErrorLine(stderr).line).toBe(line)
  })

  it('finds the error after a source line so long that the file name was cut off', () => {
    const stderr = `x = 1${'y'.repeat(20_000)}\n\nError: boom\n    at f (/w/a.js:1:7)\n    at node:x:1:1\n\nNode.js v26.10.0\n`
    expect(describeErrorLine(findErrorLine(stderr))).toBe('Error: boom (/w/a.js:1)')
  })

  it('finds the error of an exception group', () => {
    const stderr = `  + Exception Group Traceback (most recent call last):
  |   File "/w/main.py", line 7, in <module>
  |     raise ExceptionGroup("many", [ValueError(1)])
  | ExceptionGroup: many (1 sub-exception)
  +-+---------------- 1 ----------------
    | ValueError: 1
    +------------------------------------
`
    expect(describeErrorLine(findErrorLine(stderr))).toBe(
      'ExceptionGroup: many (1 sub-exception) (/w/main.py:7)',
    )
  })

  it('reads any text in little time', () => {
    for (const text of ['  File "', '    at (', 'a: line 1: ', '^\n', 'Node.js v1.1.1\n', '| + '])
      expect(findErrorLine(text.repeat(5000)).line.length).toBeLessThan(20_000)
  })
})

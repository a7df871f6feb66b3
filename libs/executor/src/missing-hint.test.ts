/** The exact output of shells and interpreters about missing things, and the hint for the user. */
import { expect, it } from 'vitest'
import { missingHint } from './missing-hint.ts'

const FULL = 'An operator can set the image to cofferdam/sandbox:full, which has it'
const INSTALL = 'program of type "install" with the same session adds packages.'

it.each([
  ['bash', 'main.sh: line 3: git: command not found', 127, `Not in the image: git. ${FULL}.`],
  // The script continued after the missing command, so the exit code is that of a later command.
  [
    'bash, with another exit code',
    'main.sh: line 3: jq: command not found\n',
    1,
    `Not in the image: jq. ${FULL}.`,
  ],
  [
    'bash, of what no image has',
    'main.sh: line 1: ffmpeg: command not found',
    127,
    'Not in the image: ffmpeg.',
  ],
  ['dash', 'sh: 1: curl: not found', 127, `Not in the image: curl. ${FULL}.`],
  [
    'Python, of a command',
    "Traceback (most recent call last):\nFileNotFoundError: [Errno 2] No such file or directory: 'git'",
    1,
    `Not in the image: git. ${FULL}.`,
  ],
  [
    'Node, of a command',
    'Error: spawn git ENOENT\n    at ChildProcess',
    1,
    `Not in the image: git. ${FULL}.`,
  ],
  [
    'Python, of a module',
    "ModuleNotFoundError: No module named 'scipy.stats'",
    1,
    `Not in the image: scipy. ${FULL}; or a ${INSTALL}`,
  ],
  [
    'Python, of a module with another name',
    "ModuleNotFoundError: No module named 'yaml'",
    1,
    `Not in the image: yaml (package pyyaml). ${FULL}; or a ${INSTALL}`,
  ],
  [
    'Python, of another module',
    "ModuleNotFoundError: No module named 'polars'",
    1,
    `Not in the image: polars. A ${INSTALL}`,
  ],
  [
    'Node, of a module',
    "Error: Cannot find module 'lodash/fp'\nRequire stack:\n- /tmp/main.js",
    1,
    `Not in the image: lodash/fp. A ${INSTALL}`,
  ],
  [
    'Node, of a package',
    "Error [ERR_MODULE_NOT_FOUND]: Cannot find package 'zod' imported from /tmp/main.mjs",
    1,
    `Not in the image: zod. A ${INSTALL}`,
  ],
])('names what was not found by %s', (_who, printed, exitCode, hint) => {
  expect(missingHint('docker', exitCode, printed)).toBe(hint)
})

it('names our full image only on backends that run one of our images', () => {
  const printed = "ModuleNotFoundError: No module named 'requests'"
  expect(missingHint('gvisor', 1, printed)).toContain('cofferdam/sandbox:full')
  expect(missingHint('e2b', 1, printed)).toBe(`Not in the image: requests. A ${INSTALL}`)
})

it('names the host if the backend uses no image', () => {
  expect(missingHint('process', 127, 'main.sh: line 1: git: command not found')).toBe(
    "Not on the worker's host: git.",
  )
  expect(missingHint('process', 1, "ModuleNotFoundError: No module named 'requests'")).toBe(
    `Not on the worker's host: requests. A ${INSTALL}`,
  )
})

it.each([
  ['a file of its own', "FileNotFoundError: [Errno 2] No such file or directory: 'prices.csv'", 1],
  ['a script of its own', "Error: Cannot find module './prices'", 1],
  ['a module of Node', "Error: Cannot find module 'node:nope'", 1],
  ['a message of its own', 'ValueError: customer: not found', 1],
])('says nothing of %s', (_what, printed, exitCode) => {
  expect(missingHint('docker', exitCode, printed)).toBeNull()
})

import path from 'node:path'
import { TEST_FRAMEWORKS } from '@cofferdam/contract'
import { requestOf } from '../build-request.ts'
import { carryOut } from '../carry-out.ts'
import { API_FLAGS, type Command } from '../command.ts'
import { textFlag } from '../parse-command-line.ts'
import { PROGRAM_FLAGS, QUEUE_FLAGS } from '../program-flags.ts'
import { projectFiles } from '../project-files.ts'

const { language: _language, stdin: _stdin, ...SHARED_FLAGS } = PROGRAM_FLAGS

export const command: Command = {
  usage: '[DIR] [flags]',
  details:
    'The folder\u2019s files (what git would show) go into a sandbox; the framework is found by what lies there and its own report\n' +
    'is read: counts, and every failing test with file, line and message. Exit status 0 when all passed.',
  flags: {
    framework: { type: 'string', value: 'NAME', description: TEST_FRAMEWORKS.join(', ') },
    command: { type: 'string', value: 'SHELL', description: 'run this instead of what was found' },
    path: { type: 'string', value: 'PATH', description: 'folder of the project in DIR, or one test file' },
    ...SHARED_FLAGS,
    save: { type: 'string', value: 'DIR', description: 'write the artifacts below this directory' },
    local: {
      type: 'boolean',
      description: 'skip the queue: run it from this process, uncapped and unaudited',
    },
    ...QUEUE_FLAGS,
    ...API_FLAGS,
  },
  words: { min: 0, max: 1 },
  examples: [
    'cofferdam test',
    'cofferdam test ./api --framework pytest',
    'cofferdam test --path tests/test_login.py',
  ],
  async run(context, line) {
    const files = await projectFiles(path.resolve(context.cwd, line.words[0] ?? '.'))
    const told = ['framework', 'command', 'path'].map((name) => [name, textFlag(line, name)])
    const program = {
      type: 'tests',
      ...Object.fromEntries(told.filter(([, value]) => value !== undefined)),
    }
    return await carryOut(await requestOf(line, context.cwd, { program, files }), context, line)
  },
}

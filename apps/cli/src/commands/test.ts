import path from 'node:path'
import { TEST_FRAMEWORKS } from '@cofferdam/contract'
import { requestOf } from '../build-request.ts'
import { carryOut } from '../carry-out.ts'
import { API_FLAGS, type Command } from '../command.ts'
import { textFlag, withoutUndefined } from '../parse-command-line.ts'
import { PROGRAM_FLAGS, QUEUE_FLAGS, RUN_FLAGS } from '../program-flags.ts'
import { projectFiles } from '../project-files.ts'

const { language: _language, stdin: _stdin, ...SHARED_FLAGS } = PROGRAM_FLAGS

export const command: Command = {
  usage: '[DIR] [flags]',
  details:
    'Copies the files of the folder (those that git would list) into a sandbox and runs its tests there. ' +
    'The framework is\n' +
    'detected from the files. Prints the counts, and each failing test with file, line and message. Exit ' +
    'status 0 when all\n' +
    'tests passed.',
  flags: {
    framework: { type: 'string', value: 'NAME', description: TEST_FRAMEWORKS.join(', ') },
    command: { type: 'string', value: 'SHELL', description: 'run this command instead of the detected one' },
    path: { type: 'string', value: 'PATH', description: 'folder of the project in DIR, or one test file' },
    ...SHARED_FLAGS,
    ...RUN_FLAGS,
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
    const named = ['framework', 'command', 'path'].map((name) => [name, textFlag(line, name)])
    const program = { type: 'tests', ...withoutUndefined(Object.fromEntries(named)) }
    return await carryOut(await requestOf(line, context.cwd, { program, files }), context, line)
  },
}

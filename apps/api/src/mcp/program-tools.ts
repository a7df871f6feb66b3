/** `run_code`, `run_command` and `run_tests`. */
import { languageSchema, pathSchema, TEST_FRAMEWORKS } from '@cofferdam/contract'
import type { CallToolResult } from '@modelcontextprotocol/server'
import { z } from 'zod'
import { namedFields } from '../wire-schemas.ts'
import { executionOutput } from './execution-output.ts'
import { artifactsArgument, optionsOf, requestOf, runArguments, stdinArgument } from './program-arguments.ts'
import { runExecution, type AskedExecution, type RunOptions } from './run-execution.ts'
import { taskResult } from './tasks.ts'
import { defineTool, type ToolCall } from './tool.ts'
import { endedResult, liveResult } from './tool-result.ts'

/**
 * `openWorldHint` is true because a program can reach the network if its arguments and the policy allow it.
 */
const ANNOTATIONS = {
  readOnlyHint: false,
  destructiveHint: false,
  idempotentHint: false,
  openWorldHint: true,
}

async function run(call: ToolCall, asked: AskedExecution, options: RunOptions): Promise<CallToolResult> {
  const ran = await runExecution(call, asked, options)
  if ('ended' in ran) return endedResult(call, ran.ended)
  return call.takesTasks ? taskResult(ran.running) : liveResult(ran.running)
}

const runCode = defineTool({
  name: 'run_code',
  title: 'Run code',
  description:
    'Run Python, JavaScript, TypeScript or bash in an isolated sandbox and get its output, the value of ' +
    'the last expression and collected files. 30 s, 256 MiB and no network unless you ask for more. The ' +
    'sandbox is fresh and destroyed afterwards, unless you name a session: then variables and files stay ' +
    'for the next call. Code that fails is a normal result with ok: false. If it takes longer than ' +
    'wait_s, the answer has an execution_id for get_execution. Every call is charged to the tenant’s caps ' +
    'and audited.',
  input: runArguments.extend({
    language: languageSchema,
    source: z.string().max(1024 * 1024),
    stdin: stdinArgument,
    artifacts: artifactsArgument,
    preload: z.string().max(64).optional().describe('A set of modules that the operator keeps imported.'),
  }),
  output: executionOutput,
  annotations: ANNOTATIONS,
  scope: 'cofferdam:run',
  call: (args, call) => {
    const { language, source, stdin, artifacts, preload } = args
    const program = { type: 'script' as const, language, source }
    const asked = { ...requestOf(args), ...namedFields({ stdin, artifacts, preload }), program }
    return run(call, asked, optionsOf(args))
  },
})

const runCommand = defineTool({
  name: 'run_command',
  title: 'Run a command',
  description:
    'Run a command in an isolated Linux sandbox: either argv, a list of words, or shell, a line for sh. ' +
    '30 s, 256 MiB and no network unless you ask for more. The sandbox is fresh and destroyed afterwards, ' +
    'unless you name a session: then its files stay for the next call. A command that fails is a normal ' +
    'result with ok: false. If it takes longer than wait_s, the answer has an execution_id for ' +
    'get_execution.',
  input: runArguments.extend({
    argv: z.array(z.string()).min(1).max(256).optional(),
    shell: z
      .string()
      .min(1)
      .max(1024 * 1024)
      .optional(),
    stdin: stdinArgument,
    artifacts: artifactsArgument,
  }),
  output: executionOutput,
  annotations: ANNOTATIONS,
  scope: 'cofferdam:run',
  call: (args, call) => {
    const { argv, shell, stdin, artifacts } = args
    const program = { type: 'command' as const, ...namedFields({ argv, shell }) }
    return run(call, { ...requestOf(args), ...namedFields({ stdin, artifacts }), program }, optionsOf(args))
  },
})

const runTests = defineTool({
  name: 'run_tests',
  title: 'Run tests',
  description:
    'Run the tests of a project in an isolated sandbox and get counts and every failure with file, line ' +
    'and message. Knows pytest, unittest, jest, vitest, mocha, node:test, go, cargo and npm, and detects ' +
    'which one the files need. Send the project as files, or name the session that has it. 30 s, 256 MiB ' +
    'and no network unless you ask for more. Failed tests are a normal result with ok: false.',
  input: runArguments.extend({
    framework: z.enum(TEST_FRAMEWORKS).optional().describe('Default: detected from the files.'),
    path: pathSchema.optional().describe('Project folder or one test file.'),
    command: z
      .string()
      .min(1)
      .max(128 * 1024)
      .optional()
      .describe('Shell line that runs the tests instead.'),
  }),
  output: executionOutput,
  annotations: ANNOTATIONS,
  scope: 'cofferdam:run',
  call: (args, call) => {
    const { framework, path, command } = args
    const program = { type: 'tests' as const, ...namedFields({ framework, path, command }) }
    return run(call, { ...requestOf(args), program }, optionsOf(args))
  },
})

export const PROGRAM_TOOLS = [runCode, runCommand, runTests]

/**
 * bash where a session keeps files and no processes (gVisor, E2B): each command has a shell of its own, which
 * begins with what the last one left. The work directory, variables, functions, aliases and options live on.
 * Background jobs end with their command.
 */
import { readFileSync } from 'node:fs'
import { BOUNDS } from '@cofferdam/contract'
import { answerOf, bash, limitsFor, parseCommand } from './bash.ts'
import { ToolInputError, type Tool, type ToolPlan } from './tool.ts'

const SHELL = readFileSync(new URL('restored-shell.sh', import.meta.url), 'utf8')

export const restoredBash: Tool = {
  ...bash,
  plan(input) {
    const { command, restart, timeoutMs } = parseCommand(input)
    if (Buffer.byteLength(command) > BOUNDS.stdinBytes)
      throw new ToolInputError(`bash: the command is too long: it may have ${BOUNDS.stdinBytes} bytes.`)
    const plan: ToolPlan = {
      program: {
        type: 'command',
        argv: ['bash', '--norc', '--noprofile', '-c', SHELL, '/bin/bash', restart ? 'restart' : 'go on'],
      },
      stdin: command.replaceAll('\0', ''),
      limits: limitsFor(timeoutMs),
      answer: (result) => answerOf(result, timeoutMs),
    }
    if (command !== '') return plan
    return { ...plan, answer: (result) => withText(plan.answer(result), 'bash session restarted') }
  },
}

const withText = (answer: ReturnType<ToolPlan['answer']>, text: string): ReturnType<ToolPlan['answer']> =>
  answer.isError ? answer : { text, isError: false }

/**
 * bash: a command in the shell that the session keeps. All its output goes to stderr, of which the end is
 * kept. Stdout carries only the exit status. If there is no status, the command has ended the shell.
 */
import { BOUNDS, type ExecutionResult } from '@cofferdam/contract'
import { z } from 'zod'
import { describeEnding, isGuess } from './describe-ending.ts'
import { optional, parseInput, ToolInputError, type Tool, type ToolAnswer, type ToolPlan } from './tool.ts'

/** The SDK's runner gives up on a call after this time. It is also the default. */
export const MAX_TIMEOUT_MS = 120_000
/** Between the soft and the hard deadline: time to end, and to report it before the runner gives up. */
const GRACE_MS = 2000
/** The shortest soft deadline. */
const MIN_TIMEOUT_MS = 10

/** UTF-16 units of output that the agent sees, as in the SDK. */
const OUTPUT_LIMIT = 100 * 1024
/**
 * The length of the marker line that the SDK's shell prints after a command. Its output limit counts this
 * line: a line end, 53 characters, the status, a line end.
 */
const frameOf = (status: string): number => 1 + 53 + status.length + 1
/** A UTF-16 unit has at most 3 bytes, so this holds OUTPUT_LIMIT of them. */
const STDERR_BYTES = 3 * OUTPUT_LIMIT + 4
/** Room for the status line, and for lines that the agent's traps may print before it. */
const STDOUT_BYTES = 64 * 1024

// oxlint-disable-next-line no-control-regex -- escape sequences begin with a control character.
const ANSI = /\x1b\[[0-9;?]*[ -/]*[@-~]/g
const STATUS = /^cofferdam-exit (\d+) (.*)$/gm

const inputSchema = z.object({
  command: optional(z.string()),
  restart: optional(z.boolean()),
  timeout_ms: optional(z.int()),
})

export const bash: Tool = {
  name: 'bash',
  description: 'Run a bash command in a persistent shell. State (cwd, env vars) persists across calls.',
  inputSchema: {
    type: 'object',
    properties: {
      command: { type: 'string', description: 'The command to run' },
      restart: { type: 'boolean', description: 'Restart the persistent shell before running' },
      timeout_ms: { type: 'integer', description: 'Per-call timeout in milliseconds' },
    },
  },
  plan(input) {
    const { command, restart, timeoutMs } = parseCommand(input)
    if (command === '') return planRestart()
    const source = scriptOf(command)
    if (Buffer.byteLength(source) > BOUNDS.sourceBytes)
      throw new ToolInputError(
        `bash: the command is too long: with its quotes escaped it may have ${BOUNDS.sourceBytes} bytes. ` +
          'Write long texts with the write tool.',
      )
    return {
      ...(restart ? { before: script(RESTART) } : {}),
      program: script(source),
      limits: limitsFor(timeoutMs),
      answer: (result) => answerOf(result, timeoutMs),
    }
  },
}

/** The input of bash. The command may be empty to restart the shell. Throws ToolInputError. */
export function parseCommand(input: unknown): { command: string; restart: boolean; timeoutMs: number } {
  const { command = '', restart = false, timeout_ms } = parseInput('bash', inputSchema, input)
  if (command === '' && !restart) throw new ToolInputError('bash: command is required')
  const timeoutMs = Math.min(MAX_TIMEOUT_MS, Math.max(MIN_TIMEOUT_MS, timeout_ms ?? MAX_TIMEOUT_MS))
  return { command, restart, timeoutMs }
}

const script = (source: string) => ({ type: 'script', language: 'bash', source }) as const

/** Limits of a command with this soft deadline. */
export function limitsFor(timeoutMs: number): ToolPlan['limits'] {
  const hard = Math.max(timeoutMs, 2 * MIN_TIMEOUT_MS)
  return {
    soft_timeout_ms: Math.max(Math.floor(hard / 2), hard - GRACE_MS),
    hard_timeout_ms: hard,
    stdout_bytes: STDOUT_BYTES,
    stderr_bytes: STDERR_BYTES,
  }
}

/**
 * The script sources itself, so that a `return` of the command ends only the inner run. Its own lines use
 * only builtins, so they work with any PATH. The agent sees no traces of them or of the session's loop: their
 * traces go to /dev/null, and `set -x` is off between commands.
 */
export function scriptOf(command: string): string {
  // The SDK's shell reads commands from a pipe, where bash skips NUL.
  const quoted = `'${command
    .replaceAll('\0', '')
    .toWellFormed()
    .replaceAll("'", String.raw`'\''`)}'`
  return [
    `{ if [[ \${1-} == cofferdam-inner ]]; then builtin set --; BASH_ARGV0=/bin/bash;`,
    `builtin eval "\${__cofferdam_x:+builtin set -x;}"${quoted}`,
    '</dev/null >&194 2>&194 194>&-;',
    'else builtin source "${BASH_SOURCE[0]}" cofferdam-inner 2>&194; builtin set -- "$?";',
    `builtin printf 'cofferdam-exit %d %s\\n' "$1" "\${BASH_SOURCE[0]}";`,
    '[[ $- == *x* ]] && __cofferdam_x=1 || builtin unset __cofferdam_x; builtin set +x;',
    'builtin return "$1"; fi; } 194>&2 2>/dev/null\n',
  ].join(' ')
}

/** Kills the processes of the shell's process group, as the SDK does, and ends the shell. */
const RESTART = [
  "{ builtin set +eufx; IFS=' '",
  'for __cofferdam_file in /proc/[0-9]*/stat; do',
  '  IFS= builtin read -r __cofferdam_line <"$__cofferdam_file" || continue',
  '  builtin set -- "${__cofferdam_file//[!0-9]/}" ${__cofferdam_line##*) }',
  '  if [[ $4 == "$$" && $1 != "$$" ]]; then builtin kill -KILL "$1"; fi',
  'done; builtin trap - EXIT; builtin exit 0; } 2>/dev/null',
  '',
].join('\n')

function planRestart(): ToolPlan {
  return {
    program: script(RESTART),
    limits: limitsFor(MAX_TIMEOUT_MS),
    answer: (result) =>
      hasRun(result)
        ? { text: 'bash session restarted', isError: false }
        : { text: describeEnding('bash', result), isError: true },
  }
}

/** The command ran to its own end, whatever that was. */
const hasRun = (result: ExecutionResult): boolean =>
  result.ending === 'ok' || result.ending === 'error' || result.ending === 'crashed' || isGuess(result)

/** What the agent gets back. The script prints the exit status to stdout, and all output goes to stderr. */
export function answerOf(result: ExecutionResult, timeoutMs: number): ToolAnswer {
  const [, status, path = ''] = [...result.stdout.matchAll(STATUS)].at(-1) ?? []
  if (isTimeout(result)) return { text: `bash: bash command timed out after ${timeoutMs}ms`, isError: true }
  if (!hasRun(result)) {
    const output = outputOf(result, path, '')
    const why = describeEnding('bash', result)
    return { text: output === '' ? why : `${output}\n${why}`, isError: true }
  }
  if (status === undefined) return { text: 'bash: bash session terminated', isError: true }
  const output = outputOf(result, path, status)
  if (status === '0') return { text: output, isError: false }
  return { text: output === '' ? `exit ${status}` : output, isError: true }
}

const isTimeout = ({ ending, reason }: ExecutionResult): boolean =>
  (ending === 'soft_timeout' || ending === 'hard_timeout') && reason === undefined

/** The end of the output as the SDK shows it. */
function outputOf(result: ExecutionResult, path: string, status: string): string {
  const text = nameShell(result.stderr, path)
  const kept = OUTPUT_LIMIT - frameOf(status)
  const isCut = text.length > kept || result.stderr_truncated
  const shown = text.slice(-kept).replace(ANSI, '').replace(/\n+$/, '')
  if (!isCut) return shown
  // Only the first BOUNDS.fullOutputBytes leave the sandbox, so the real end of a longer output is missing.
  const note =
    result.stderr_bytes > BOUNDS.fullOutputBytes
      ? `[of ${result.stderr_bytes} bytes, this is the end of the first ${BOUNDS.fullOutputBytes}]\n`
      : ''
  return `[output truncated]\n${note}${shown}`
}

/** Replaces the path of the script file in bash's messages, because the agent does not know that file. */
function nameShell(text: string, path: string): string {
  if (path === '') return text
  return text
    .replaceAll(`${path}: eval: line `, '/bin/bash: line ')
    .replaceAll(`${path}: line `, '/bin/bash: line ')
}

/**
 * Allow and block lists for the commands of a program. This is hygiene, not isolation: it keeps an agent from
 * commands that an operator does not want, but an allowed program can do whatever the sandbox allows.
 *
 *   no list set ─► allowed, nothing is parsed
 *   every command of the text ─► refused if it cannot be judged, is blocked, or is not on the allow list
 *
 * Relies on the parser seeing what bash sees (tested against a real bash). A command that the text does not
 * state, such as `$X`, is refused even if only a block list is set. Otherwise it would pass every rule.
 */
import { types } from 'node:util'
import { createContext, Script } from 'node:vm'
import type { Program, TenantPolicy } from '@cofferdam/contract'
import { commandsOfArgv, commandsOfText, type Found } from './find-commands.ts'
import { matchesAllow, matchesBlock } from './match-rule.ts'
import { HARMLESS_BUILTINS } from './running-programs.ts'

export type CommandRules = TenantPolicy['commands']

export type CommandJudgement =
  | { allowed: true }
  /** `command` is the refused name. `message` is public. */
  | { allowed: false; command: string; message: string }

/** The wire's bound for a program's source (contract, BOUNDS.sourceBytes). */
const MAX_TEXT_CHARACTERS = 1_048_576
/**
 * 1 MiB of ordinary text takes 300 ms. A crafted one can take minutes (open here-documents are quadratic).
 */
const JUDGE_MS = 500
/** Below this even a crafted text takes at most 16 ms and needs no time limit. */
const SMALL_CHARACTERS = 8192

/**
 * Judges what a program would run, in at most half a second. Pure. Scripts in other languages than bash are
 * allowed unread.
 */
export function judgeCommand(program: Program, rules: CommandRules): CommandJudgement {
  if (rules.allow === null && rules.block.length === 0) return { allowed: true }
  const asked = commandLineOf(program)
  if (asked === null) return { allowed: true }
  const found = findBounded(asked)
  if (typeof found === 'string') return unjudged('', found)
  for (const command of found) {
    const refusal = 'unclear' in command ? unjudged(command.unclear, command.why) : judgeFound(command, rules)
    if (refusal !== null) return refusal
  }
  return { allowed: true }
}

/** The shell text or the words that a program runs. Null if it has neither, such as a Python script. */
function commandLineOf(program: Program): string | readonly string[] | null {
  switch (program.type) {
    case 'command':
      return program.shell ?? program.argv ?? null
    case 'tests':
      return program.command ?? null
    case 'script':
      return program.language === 'bash' ? program.source : null
    case 'install':
    case 'files':
      return null
  }
}

function findBounded(asked: string | readonly string[]): Found[] | string {
  const find = () => (typeof asked === 'string' ? commandsOfText(asked) : commandsOfArgv(asked))
  const size = typeof asked === 'string' ? asked.length : asked.reduce((sum, word) => sum + word.length, 0)
  // argv may be longer than 1 MiB in total, but only its shell texts cost time.
  if (typeof asked === 'string' && size > MAX_TEXT_CHARACTERS) return 'the text is longer than 1 MiB'
  try {
    return (size <= SMALL_CHARACTERS ? find() : withinTime(JUDGE_MS, find)) ?? 'it takes too long to read'
  } catch (error) {
    // The parser recurses. Real texts are not nested deeper than the stack.
    if (error instanceof RangeError) return 'it is nested too deeply'
    throw error
  }
}

const CALL = new Script('work()')

/**
 * The result of `work`, or null if it took longer than `ms`. Throws what `work` throws. The parser itself has
 * no time limit, so V8 terminates it.
 */
function withinTime<T>(ms: number, work: () => T): T | null {
  try {
    return CALL.runInContext(createContext({ work }), { timeout: ms }) as T
  } catch (error) {
    // The error comes from the context of node:vm, where Error is another class.
    if (types.isNativeError(error) && 'code' in error && error.code === 'ERR_SCRIPT_EXECUTION_TIMEOUT')
      return null
    throw error
  }
}

function judgeFound(found: Extract<Found, { argv: unknown }>, rules: CommandRules): CommandJudgement | null {
  const { argv, byShell, ownFunction } = found
  const name = argv[0] ?? ''
  for (const entry of rules.block) {
    const match = matchesBlock(argv, entry)
    if (match === 'unclear')
      return unjudged(name, `a word that the rule "${shown(entry)}" names is not constant`)
    if (match === 'yes')
      return refused(
        name,
        `Command "${shown(name)}" is blocked for the tenant by the rule "${shown(entry)}".`,
      )
  }
  if (rules.allow === null || ownFunction || (byShell && HARMLESS_BUILTINS.has(name))) return null
  if (rules.allow.some((entry) => matchesAllow(argv, entry))) return null
  return refused(name, `Command "${shown(name)}" is not on the tenant's list of allowed commands.`)
}

function unjudged(what: string, why: string): CommandJudgement {
  const named = what === '' ? 'The command' : `Command "${shown(what)}"`
  return refused(what, `${named} cannot be judged by the tenant's command rules: ${why}.`)
}

const refused = (command: string, message: string): CommandJudgement => ({
  allowed: false,
  command: shown(command),
  message,
})

/** A name in the form for a message: one line, 64 characters. */
function shown(text: string): string {
  // oxlint-disable-next-line no-control-regex
  const line = text.replaceAll(/[\0-\x1f\x7f]/g, ' ')
  return line.length <= 64 ? line : `${line.slice(0, 63)}…`
}

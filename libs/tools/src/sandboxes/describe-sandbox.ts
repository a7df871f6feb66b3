/** What a model should know about its sandbox. */
import { DEFAULT_TIMEOUT_MS, type SandboxOptions } from './sandbox-options.ts'
import { WORK_FOLDER } from './session-sandbox.ts'

/** The workers' default of `warm.cells.idle_ms`. An operator may have set another one. */
const DEFAULT_IDLE_MS = 300_000

/** A few sentences for the instructions of an agent. */
export function describeSandbox(options: SandboxOptions): string {
  const seconds = Math.round((options.timeoutMs ?? DEFAULT_TIMEOUT_MS) / 1000)
  const idleSeconds = Math.round((options.idleMs ?? DEFAULT_IDLE_MS) / 1000)
  return [
    `A Linux sandbox with bash, Python and Node.js. Commands and relative paths start in ${WORK_FOLDER}.`,
    options.scope === 'processes'
      ? 'Files and background processes last between commands.'
      : `Only files in ${WORK_FOLDER} last between commands. Background processes end with their command.`,
    networkOf(options),
    `One command runs at a time, for at most ${seconds} s; its exit code is 124 if it was stopped then.`,
    `A file has at most 8 MiB. If the sandbox is not used for ${idleSeconds} s, it ends with all its files.`,
  ].join(' ')
}

function networkOf({ network = 'none' }: SandboxOptions): string {
  if (network === 'none') return 'There is no network.'
  if (network === 'public') return 'The public internet can be reached through the proxy of its environment.'
  return `Only these hosts can be reached, through the proxy of its environment: ${network.allow.join(', ')}.`
}

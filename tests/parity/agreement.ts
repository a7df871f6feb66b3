/**
 * What two runs of one program must have in common, and how a comparison can end:
 *
 *   agree             exit code, signal, bytes of both streams and the verdict are the same
 *   redacted          the program wrote the same bytes, and the executor hid some of them as secrets
 *   transformed       TypeScript that bare Node refuses to strip and we run on purpose
 *   slow              the bare run already timed out
 *   limit             a limit of the sandbox ended it (memory, processes, disk, output)
 *   nondeterministic  two bare runs differ as well
 *   broken            our sandbox failed, whatever the program did
 *   disagree          everything else, which we have to explain
 */
import type { Ending } from '@cofferdam/contract'
import type { Ran } from './bare-run.ts'
import type { FleetRan } from './fleet-run.ts'

export type Comparison =
  | 'agree'
  | 'redacted'
  | 'transformed'
  | 'slow'
  | 'limit'
  | 'nondeterministic'
  | 'broken'
  | 'disagree'

/** Addresses, IDs of threads and processes, and durations differ from run to run. The rest must not. */
export function steady(bytes: Buffer): string {
  return bytes
    .toString('latin1')
    .replaceAll(/0x[0-9a-f]{6,}/gi, '0xADDRESS')
    .replaceAll(/\(node:\d+\)/g, '(node:PID)')
    .replaceAll(/\bstarted \d{6,}/g, 'started THREAD')
    .replaceAll(/\bin \d+\.\d+ ?s\b/g, 'in N s')
    .replaceAll(/\/[^\s'":/][^\s'":]*\/sbx_[0-9a-f]+\/home\/(work|tmp)\b/g, '/tmp/$1')
}

/** Names of what differs between two runs. Empty when they agree. */
export function differences(a: Ran, b: Ran): string[] {
  const found: string[] = []
  if (a.timedOut !== b.timedOut) found.push('time')
  if (a.exitCode !== b.exitCode) found.push('exit code')
  if (a.signal !== b.signal) found.push('signal')
  if (steady(a.stdout) !== steady(b.stdout)) found.push('stdout')
  if (steady(a.stderr) !== steady(b.stderr)) found.push('stderr')
  return found
}

const LIMIT_ENDINGS: readonly Ending[] = ['oom', 'pids_limit', 'disk_limit', 'output_limit']

/** Endings that say nothing about the program, because our sandbox did not start or went away. */
const BROKEN_ENDINGS: readonly Ending[] = ['provisioning', 'sandbox_lost', 'worker_lost', 'cancelled']

/** Compares both sides, before we know whether the program is deterministic. */
export function compare(bare: Ran, ours: FleetRan): { result: Comparison; differs: string[] } {
  const { outcome } = ours
  if (BROKEN_ENDINGS.includes(outcome.ending)) return { result: 'broken', differs: [outcome.reason ?? ''] }
  if (bare.timedOut) return { result: 'slow', differs: [] }
  const differs = differences(bare, ours)
  if (LIMIT_ENDINGS.includes(outcome.ending) && differs.length > 0) return { result: 'limit', differs }
  if (isRefusedTypeScript(bare) && !isRefusedTypeScript(ours)) return { result: 'transformed', differs }
  if (outcome.ending !== expectedEnding(bare)) differs.push(`ending ${outcome.ending}`)
  if (differs.length > 0) return { result: 'disagree', differs }
  if (outcome.redactionCount > 0) return { result: 'redacted', differs }
  for (const name of ['stdout', 'stderr'] as const)
    if (!outcome[name].truncated && outcome[name].text !== ours[name].toString('utf8'))
      differs.push(`text of ${name}`)
  return { result: differs.length > 0 ? 'disagree' : 'agree', differs }
}

function expectedEnding(bare: Ran): Ending {
  if (bare.signal !== null) return 'crashed'
  return bare.exitCode === 0 ? 'ok' : 'error'
}

const isRefusedTypeScript = (ran: Ran): boolean => ran.stderr.includes('ERR_UNSUPPORTED_TYPESCRIPT_SYNTAX')

/** The first place where two outputs differ, with some text around it. */
export function firstDifference(bare: Ran, ours: Ran): string {
  for (const name of ['stdout', 'stderr'] as const) {
    const [a, b] = [steady(bare[name]), steady(ours[name])]
    if (a === b) continue
    let at = 0
    while (at < a.length && a[at] === b[at]) at++
    const around = (text: string): string =>
      JSON.stringify(Buffer.from(text.slice(Math.max(0, at - 80), at + 160), 'latin1').toString('utf8'))
    return `${name} at ${at}\n    bare: ${around(a)}\n    ours: ${around(b)}`
  }
  const end = (ran: Ran): string =>
    `exit code ${ran.exitCode}, signal ${ran.signal}, timed out ${ran.timedOut}`
  return `bare: ${end(bare)}\n    ours: ${end(ours)}`
}

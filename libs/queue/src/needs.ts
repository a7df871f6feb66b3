/**
 * Describes in the same words what an execution needs of its backend and what a backend offers. An offer
 * meets a need when it has every word of it, so the scheduler need not know what the words mean.
 *
 * Amounts are rounded up to powers of two, so that few needs differ. A worker that has an amount in between
 * may be passed over for a larger one, but is still used when no other worker can run the execution.
 */
import {
  isAtLeast,
  ISOLATIONS,
  preloadOf,
  reuseOf,
  strongest,
  type Backend,
  type ExecutionRequest,
  type Isolation,
} from '@cofferdam/contract'
import { readableWords, RECORD_VERSION } from './record-version.ts'

/** Words of everything that one backend of a worker can do. */
export type Offer = ReadonlySet<string>

/** Smaller amounts of MiB are left out, because every worker has them. */
const LEAST_MIB = 256
/** Shorter deadlines are left out too, because every worker offers them. */
const LEAST_SECONDS = 60
/** Amounts above this multiple of the least one are left out. */
const LARGEST = 2 ** 30

/** Words are joined by commas and are part of key names, so other signs are replaced by `_`. */
const word = (name: string, value: string): string => `${name}=${value.replaceAll(/[^A-Za-z0-9_.@-]/g, '_')}`

function roundedUp(amount: number, least: number): number {
  let power = least
  while (power < amount) power *= 2
  return power
}

/** Words for `least` and its doubled amounts up to `most`. */
function amountsUpTo(name: string, most: number, least: number): string[] {
  const words: string[] = []
  for (let power = least; power <= Math.min(most, LARGEST * least); power *= 2)
    words.push(word(name, String(power)))
  return words
}

/**
 * What a backend offers on a worker whose sandboxes together may use `memoryMib`. Remote sandboxes use none
 * of the worker's memory. A backend without a longest deadline offers every deadline.
 */
export function offerOf(
  { name, isolation, capabilities: can }: Pick<Backend, 'name' | 'isolation' | 'capabilities'>,
  memoryMib: number,
): Offer {
  const levels = ISOLATIONS.filter((level) => isAtLeast(isolation, level))
  return new Set([
    word('backend', name),
    ...levels.map((level) => word('isolation', level)),
    ...can.programs.map((type) => word('program', type)),
    // A files program runs nothing. Every backend can copy files for its own sessions.
    word('program', 'files'),
    ...can.languages.map((language) => word('language', language)),
    ...can.network.map((network) => word('network', network)),
    ...can.sessions.map((scope) => word('session', scope)),
    ...can.preloads.map((name) => word('preload', name)),
    ...(can.stdin ? ['stdin'] : []),
    ...(can.files ? ['files'] : []),
    ...(can.artifacts ? ['artifacts'] : []),
    ...(can.measures.includes('cpu_ms') ? ['cpu_time'] : []),
    ...(can.progress === true ? ['heartbeat'] : []),
    ...readableWords(RECORD_VERSION),
    ...amountsUpTo('memory', can.remote === true ? Infinity : memoryMib, 2 * LEAST_MIB),
    ...amountsUpTo('seconds', can.maxMs === null ? Infinity : can.maxMs / 1000, 2 * LEAST_SECONDS),
  ])
}

/**
 * What a request needs of a backend, as words joined by commas. `floor` is the weakest isolation that the
 * tenant's policy allows, which the caller may not know yet. Default: none.
 */
export function needOf(request: ExecutionRequest, floor: Isolation = 'none'): string {
  const { program, limits, network } = request
  // Tests and installs run as commands, with files that Cofferdam adds.
  const isTask = program.type === 'tests' || program.type === 'install'
  const reuse = reuseOf(request)
  const isolation = strongest(floor, request.min_isolation ?? 'none')
  const preload = preloadOf(request)
  const needsFiles = isTask || program.type === 'files' || (request.files ?? []).length > 0
  const moves = request.workspace !== undefined
  const seconds = limits.hard_timeout_ms / 1000
  const words = [
    ...(request.backend === 'auto' ? [] : [word('backend', request.backend)]),
    ...(isolation === 'none' ? [] : [word('isolation', isolation)]),
    word('program', isTask ? 'command' : program.type),
    ...(program.type === 'script' ? [word('language', program.language)] : []),
    // An install always reaches the package proxy, whatever network it asks for.
    word(
      'network',
      typeof network !== 'string' || (network === 'none' && program.type === 'install') ? 'allow' : network,
    ),
    ...(reuse === 'job' ? [] : [word('session', request.session?.scope ?? 'none')]),
    ...(preload === null ? [] : [word('preload', preload)]),
    ...(request.stdin === undefined ? [] : ['stdin']),
    ...(needsFiles || moves ? ['files'] : []),
    ...((request.artifacts ?? []).length > 0 || moves ? ['artifacts'] : []),
    ...(limits.cpu_time_ms === undefined ? [] : ['cpu_time']),
    ...(limits.heartbeat_timeout_ms === undefined ? [] : ['heartbeat']),
    ...(limits.memory_mib <= LEAST_MIB
      ? []
      : [word('memory', String(roundedUp(limits.memory_mib, LEAST_MIB)))]),
    ...(seconds <= LEAST_SECONDS ? [] : [word('seconds', String(roundedUp(seconds, LEAST_SECONDS)))]),
  ]
  return words.join(',')
}

/** True when an offer has every word of a need. */
export const meetsNeed = (offer: Offer, need: string): boolean =>
  need.split(',').every((one) => offer.has(one))

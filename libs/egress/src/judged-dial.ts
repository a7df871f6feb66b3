/**
 * The way out for what the worker itself calls on a tenant's word: the same judge and the same pinned addresses as for
 * programs, for one host and port that somebody named.
 */
import { networkInterfaces } from 'node:os'
import type { Duplex } from 'node:stream'
import { egressConfigSchema } from './config.ts'
import { createDial } from './dial.ts'
import { parseAuthority } from './host.ts'
import { addressRules } from './judge-address.ts'
import { createLedger } from './ledger.ts'
import { Refused, type RefusalRule } from './refusal.ts'
import { createResolve, type Resolve } from './resolve.ts'

export interface JudgedDialOptions {
  /** `CIDR` or `CIDR:port` that may be called although it is not public. Never filled from a tenant's data. */
  privateAllow: readonly string[]
  /** Name resolution and connecting together; default 10 s. */
  connectTimeoutMs?: number
  /** Default: the machine's name servers. */
  resolve?: Resolve
}

/** Connects to `host:port` when every address of it may be reached. Rejects, see `refusalOf`. */
export type JudgedDial = (host: string, port: number, signal: AbortSignal) => Promise<Duplex>

/** Both directions of one call together. */
const MAX_BYTES = 64 * 2 ** 20
const IDLE_MS = 30_000

export function createJudgedDial(options: JudgedDialOptions): JudgedDial {
  const config = egressConfigSchema.parse({
    private_allow: [...options.privateAllow],
    connect_timeout_ms: options.connectTimeoutMs ?? 10_000,
    idle_timeout_ms: IDLE_MS,
    max_bytes: MAX_BYTES,
  })
  const own = (): string[] =>
    Object.values(networkInterfaces()).flatMap((list) => (list ?? []).map(({ address }) => address))
  const addresses = addressRules(config.private_allow, own)
  const resolve = options.resolve ?? createResolve()
  return async (host, port, signal) => {
    const target = parseAuthority(`${host}:${port}`, port)
    if (target === null) throw new Refused(`${host}:${port}`, 'address', 'it names no host')
    const network = { allow: [target.text] }
    const dial = createDial({ network, config, addresses, resolve, ledger: createLedger(MAX_BYTES) })
    return await dial(target, signal)
  }
}

/** Which rule a dial was refused by; null for anything else that was thrown. */
export const refusalOf = (error: unknown): RefusalRule | null =>
  error instanceof Refused ? error.rule : null

/**
 * Connects the worker itself to a host that a tenant named. The address rules are those for programs, and
 * only checked addresses are connected to.
 */
import type { Duplex } from 'node:stream'
import { egressConfigSchema } from './config.ts'
import { createDial } from './dial.ts'
import { parseAuthority } from './host.ts'
import { addressRules } from './judge-address.ts'
import { createLedger } from './ledger.ts'
import { Refused, type RefusalRule } from './refusal.ts'
import { createResolve, type Resolve } from './resolve.ts'

export interface JudgedDialOptions {
  /** `CIDR` or `CIDR:port` that may be called although it is private. Never filled from a tenant's data. */
  privateAllow: readonly string[]
  /** Name resolution and connecting together. Default 10 s. */
  connectTimeoutMs?: number
  /** Default: the machine's name servers. */
  resolve?: Resolve
}

/** Connects to `host:port` if every address of it may be reached. Rejects otherwise, see `refusalOf`. */
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
  const addresses = addressRules(config.private_allow)
  const resolve = options.resolve ?? createResolve()
  return async (host, port, signal) => {
    const target = parseAuthority(`${host}:${port}`, port)
    if (target === null) throw new Refused(`${host}:${port}`, 'address', 'it names no host')
    const network = { allow: [target.text] }
    const dial = createDial({ network, config, addresses, resolve, ledger: createLedger(MAX_BYTES) })
    return await dial(target, signal)
  }
}

/** The rule that refused a dial. Null for any other error. */
export const refusalOf = (error: unknown): RefusalRule | null =>
  error instanceof Refused ? error.rule : null

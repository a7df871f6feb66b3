/** The worker's end of egress: created once, opened for each execution. */
import type { Network, TenantPolicy } from '@cofferdam/contract'
import type { Duplex } from 'node:stream'
import type { EgressConfig } from './config.ts'
import { createDial } from './dial.ts'
import { addressRules } from './judge-address.ts'
import { createLedger, type Ledger } from './ledger.ts'
import { createMirrors, createPackageProxy } from './packages/create-package-proxy.ts'
import { createProxy, type AcceptConnection } from './proxy-server.ts'
import { createResolve, type Resolve } from './resolve.ts'

export interface EgressOptions {
  config: EgressConfig
  /** Default: the machine's name servers. */
  resolve?: Resolve
  /** Default: the addresses of this machine's interfaces. */
  ownAddresses?: () => readonly string[]
}

export interface OpenEgress {
  /** The result of `narrowest`. It is not narrowed again here. */
  network: Network
  /** The tenant's package rules. Null when the execution may not install at all. */
  packages: TenantPolicy['packages'] | null
  /** When it aborts, every connection of the execution ends. */
  signal?: AbortSignal
}

/** The egress of one execution. Its reports grow while it is open. */
export interface ExecutionEgress
  extends
    AsyncDisposable,
    Pick<
      Ledger,
      'hosts' | 'refusals' | 'bytes' | 'installed' | 'refusedPackages' | 'narrowedPackages' | 'mirrorFailures'
    > {
  /** Takes over a connection of the program to its proxy. Never throws. */
  accept(connection: Duplex): void
  /** Ends every connection. Idempotent. */
  close(): Promise<void>
}

export interface Egress extends AsyncDisposable {
  /** Registries that have a mirror. Nothing can be installed from others. */
  readonly mirrors: Readonly<Record<'pypi' | 'npm', boolean>>
  open(execution: OpenEgress): ExecutionEgress
}

/**
 * @example
 * const egress = createEgress({ config: egressConfigSchema.parse({}) })
 * await using execution = egress.open({ network: 'public', packages: null })
 * await sandbox.run(program, { onConnection: execution.accept, … })
 * audit(execution.hosts)
 */
export function createEgress(options: EgressOptions): Egress {
  const { config, resolve = createResolve() } = options
  const addresses = addressRules(config.private_allow, options.ownAddresses)
  const mirrors = createMirrors(config)
  const running = new Set<ExecutionEgress>()

  const open = ({ network, packages, signal }: OpenEgress): ExecutionEgress => {
    const closed = new AbortController()
    const ledger = createLedger(config.max_bytes, config.max_names)
    const ended = AbortSignal.any(signal === undefined ? [closed.signal] : [closed.signal, signal])
    // Most executions never connect, so the first connection creates the server.
    let take: AcceptConnection | undefined
    const accept = (connection: Duplex): void => {
      take ??= createProxy({
        config,
        ledger,
        dial: createDial({ network, config, addresses, resolve, ledger }),
        packages: createPackageProxy({
          mirrors,
          maxRequests: config.max_connections,
          rules: packages,
          ledger,
          signal: ended,
        }),
        checkServerName: typeof network === 'object',
        signal: ended,
      })
      take(connection)
    }
    const close = async (): Promise<void> => {
      closed.abort()
      running.delete(execution)
      await Promise.resolve()
    }
    const execution: ExecutionEgress = {
      accept,
      close,
      get hosts() {
        return ledger.hosts
      },
      get refusals() {
        return ledger.refusals
      },
      get bytes() {
        return ledger.bytes
      },
      get installed() {
        return ledger.installed
      },
      get refusedPackages() {
        return ledger.refusedPackages
      },
      get narrowedPackages() {
        return ledger.narrowedPackages
      },
      get mirrorFailures() {
        return ledger.mirrorFailures
      },
      [Symbol.asyncDispose]: close,
    }
    running.add(execution)
    return execution
  }

  return {
    mirrors: { pypi: config.package_mirrors.pypi !== null, npm: config.package_mirrors.npm !== null },
    open,
    async [Symbol.asyncDispose]() {
      await Promise.all([...running].map((execution) => execution.close()))
    },
  }
}

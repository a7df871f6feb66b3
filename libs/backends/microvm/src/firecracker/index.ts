/**
 * The engine for production: Firecracker behind its jailer. It is tested against a double that enforces the
 * published rules (infra/doubles/firecracker). It has not been run against Firecracker.
 */
import { createHash } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import { findHardwareVirtualisation } from '@cofferdam/sandbox/backend'
import type { EngineProbe, MicrovmEngine } from '../engine.ts'
import { cgroupMountOf, checkHost, probeOf } from './check-host.ts'
import { endMachine } from './end-machine.ts'
import { jailId, planJail } from './jail.ts'
import { BOOT_ARGUMENTS, makeTemplate } from './make-template.ts'
import { restoreMachine } from './restore-machine.ts'
import type { FirecrackerSettings } from './settings.ts'
import type { StartParts, Timings } from './start-machine.ts'
import { createJailUids } from './uids.ts'

export { checkHost } from './check-host.ts'
export type { HostFinding } from './host-advice.ts'
export { firecrackerConfigSchema, settingsOf, type FirecrackerSettings } from './settings.ts'

/** Time limits for the real firecracker and jailer. */
const TIMINGS: Timings = {
  jailerMs: 5000,
  apiMs: 500,
  answerMs: 5000,
  bootMs: 60_000,
  snapshotMs: 120_000,
  connectMs: 500,
  handshakeMs: 100,
}

/**
 * Longer times for the double. It starts two Node.js programs for each machine, the machine may be emulated,
 * and the host may be busy.
 */
const TIMINGS_OF_DOUBLE: Timings = {
  jailerMs: 60_000,
  apiMs: 60_000,
  answerMs: 60_000,
  bootMs: 300_000,
  snapshotMs: 120_000,
  connectMs: 30_000,
  handshakeMs: 10_000,
}

export interface FirecrackerOptions {
  /** The binaries are the double’s, which isolate nothing. Hardware virtualisation is then ignored. */
  double?: boolean
  timings?: Partial<Timings>
}

export async function createFirecrackerEngine(
  settings: FirecrackerSettings,
  { double = false, timings = {} }: FirecrackerOptions = {},
): Promise<MicrovmEngine> {
  const parts: StartParts = {
    settings,
    uids: createJailUids(`${settings.chrootBase}/uids`, settings.uids),
    timings: { ...(double ? TIMINGS_OF_DOUBLE : TIMINGS), ...timings },
  }
  let found: EngineProbe | null = null
  const hardware = !double && (await findHardwareVirtualisation()).hardware

  return {
    name: 'firecracker',
    hardware,
    async probe() {
      // A success is kept, because each check starts both programs.
      if (found?.ok !== true) found = probeOf(await checkHost(settings, { double }))
      return found
    },

    async templateKey() {
      const hash = createHash('sha256').update(await readFile(settings.firecracker))
      const cpu = await readFile('/proc/cpuinfo', 'latin1').catch(() => '')
      // A snapshot is only valid on the CPU model and microcode that it was made on.
      const model = /^(?:vendor_id|cpu family|model|stepping|microcode)\s*:.*$/gm
      return hash.update([...new Set(cpu.match(model))].join('\n') + BOOT_ARGUMENTS).digest('hex')
    },

    async createTemplate(spec, folder, prepare, signal) {
      return await makeTemplate(parts, await cgroupMountOf(), { spec, folder, prepare }, signal)
    },

    async restore(template, lease, signal) {
      return await restoreMachine(parts, await cgroupMountOf(), template, lease, signal)
    },

    async killLeft({ id, process }) {
      const jail = planJail(settings, await cgroupMountOf(), jailId('clone', id))
      return await endMachine(jail, process, parts.uids)
    },
  }
}

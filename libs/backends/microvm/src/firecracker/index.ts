/**
 * The engine for production: Firecracker behind its jailer. It is tested against a double that enforces the
 * published rules (infra/doubles/firecracker). It has not been run against Firecracker.
 */
import { createHash } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import { findHardwareVirtualisation } from '@cofferdam/sandbox/backend'
import type { MicrovmEngine } from '../engine.ts'
import { cgroupMountOf, checkHost, probeOf } from './check-host.ts'
import { endMachine } from './end-machine.ts'
import { jailId, planJail } from './jail.ts'
import { BOOT_ARGUMENTS, makeTemplate } from './make-template.ts'
import { restoreMachine } from './restore-machine.ts'
import type { FirecrackerSettings } from './settings.ts'
import type { StartParts, Timings } from './start-machine.ts'
import { createJailUids } from './uids.ts'

export { checkHost, type HostFinding } from './check-host.ts'
export { firecrackerConfigSchema, settingsOf, type FirecrackerSettings } from './settings.ts'

const TIMINGS: Timings = {
  jailerMs: 5000,
  apiMs: 500,
  answerMs: 5000,
  bootMs: 60_000,
  snapshotMs: 120_000,
  connectMs: 500,
  handshakeMs: 100,
}

export interface FirecrackerOptions {
  /** True where the binaries are the double’s: no hardware and no static binary is asked for. */
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
    timings: { ...TIMINGS, ...timings },
  }
  const { hardware } = await findHardwareVirtualisation()

  return {
    name: 'firecracker',
    hardware,
    probe: async () => probeOf(await checkHost(settings, { double })),

    async templateKey() {
      const hash = createHash('sha256').update(await readFile(settings.firecracker))
      const cpu = await readFile('/proc/cpuinfo', 'latin1').catch(() => '')
      // A snapshot fits the model and microcode that it was made on.
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

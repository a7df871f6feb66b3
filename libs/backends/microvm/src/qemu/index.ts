/**
 * The engine `qemu` runs QEMU's machine type `microvm`, on KVM if the host has hardware virtualisation, else
 * emulated. An emulated machine has a real second kernel, but is no security boundary: QEMU's security policy
 * covers only hardware virtualisation.
 */
import { execFile } from 'node:child_process'
import { constants } from 'node:fs'
import { access, chmod, open, readFile, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { pipeline } from 'node:stream/promises'
import { promisify } from 'node:util'
import { CofferdamError, isCofferdamError } from '@cofferdam/contract'
import { findHardwareVirtualisation } from '@cofferdam/sandbox/backend'
import type {
  EngineProbe,
  LeftMachine,
  Machine,
  MachineLease,
  MachineSpec,
  MachineTemplate,
  MicrovmEngine,
} from '../engine.ts'
import { killLeftMachine } from '../kill-left.ts'
import { onceLoaded } from '../once-loaded.ts'
import { DISK_FULL } from '../open-failure.ts'
import { FDS, type QemuStart } from './arguments.ts'
import { loaded, saved, SHARED_MEMORY, streamState } from './migrate.ts'
import { startQemu, type QemuParts, type QemuProcess } from './virtual-machine.ts'

const MiB = 1_048_576

export interface QemuSettings {
  binary: string
  accelerator: 'auto' | 'kvm' | 'tcg'
  /** Used if the worker is root. */
  uid: number
}

export async function createQemuEngine(settings: QemuSettings): Promise<MicrovmEngine> {
  const found = await findHardwareVirtualisation()
  const hardware = settings.accelerator !== 'tcg' && found.hardware
  const accelerator = hardware ? 'kvm' : 'tcg'
  const counterKhz = await counterOfHost()
  const isRoot = process.getuid?.() === 0
  const parts: QemuParts = {
    binary: settings.binary,
    user: isRoot ? { uid: settings.uid, gid: hardware ? (await stat('/dev/kvm')).gid : settings.uid } : null,
    setpriv: await whichSetpriv(),
  }
  const version = onceLoaded(async () => {
    const { stdout } = await promisify(execFile)(settings.binary, ['--version'], { timeout: 30_000 })
    return stdout.split('\n')[0] ?? ''
  })

  async function started(
    spec: MachineSpec,
    image: { state: string; memory: string } | null,
    lease: MachineLease,
    use: QemuStart['use'],
  ): Promise<QemuProcess> {
    const start = { name: `cofferdam-${lease.id}`, accelerator, use, counterKhz } as const
    const { id, folder } = lease
    const qemu = await startQemu(parts, start, { spec, id, folder, image })
    try {
      await lease.started(qemu.pid)
      return qemu
    } catch (error) {
      await qemu.kill()
      throw error
    }
  }

  return {
    name: 'qemu',
    hardware,

    async probe(): Promise<EngineProbe> {
      if (settings.accelerator === 'kvm' && found.why !== null)
        return { ok: false, why: found.why, fix: `${found.fix} Or set \`accelerator: auto\`.` }
      try {
        const features = [await version(), hardware ? 'KVM' : `emulated: ${found.why ?? 'it is set.'}`]
        return { ok: true, features }
      } catch {
        return {
          ok: false,
          why: `${settings.binary} cannot be started.`,
          fix: 'apt-get install --no-install-recommends qemu-system-x86',
        }
      }
    },

    templateKey: async () => [await version(), accelerator, counterKhz, 'machine 1'].join(' '),

    async createTemplate(spec, folder, prepare, signal): Promise<MachineTemplate> {
      const template = { spec, state: join(folder, 'state'), memory: join(folder, 'memory') }
      for (const path of [template.memory, template.state]) {
        const file = await open(path, 'wx', 0o600)
        if (path === template.memory) await file.truncate(spec.memoryMib * MiB)
        if (parts.user !== null) await file.chown(parts.user.uid, parts.user.gid)
        await file.close()
      }
      const lease = { id: `template-${process.pid}`, folder, started: () => Promise.resolve() }
      const qemu = await started(spec, template, lease, 'template')
      const stop = (): void => void qemu.kill()
      signal.addEventListener('abort', stop, { once: true })
      try {
        await qemu.qmp.command('qmp_capabilities')
        await prepare(qemu.connect)
        await qemu.qmp.command('stop')
        await qemu.qmp.command('migrate-set-capabilities', SHARED_MEMORY)
        // Unlike `migrate-incoming`, `migrate` takes no number of an inherited descriptor. The command also
        // inherits no descriptor, so it opens QEMU's through /proc.
        await qemu.qmp.command('migrate', { uri: `exec:cat >/proc/$PPID/fd/${FDS.state}` })
        await saved(qemu)
        return template
      } catch (error) {
        await qemu.kill()
        // QEMU maps the memory file. If the disk is full, a write to the mapping raises SIGBUS.
        if ((await qemu.exited).signal === 'SIGBUS')
          throw new CofferdamError('sandbox_open_failed', DISK_FULL, { cause: error })
        throw signal.aborted ? signal.reason : explained(error, qemu)
      } finally {
        signal.removeEventListener('abort', stop)
        await qemu.kill()
        await chmod(template.state, 0o400).catch(() => {})
      }
    },

    async restore(template, lease, signal): Promise<Machine> {
      signal.throwIfAborted()
      return await running(await started(template.spec, template, lease, 'clone'), lease, signal)
    },

    async resume({ spec, state }, lease, signal): Promise<Machine> {
      try {
        signal.throwIfAborted()
        const qemu = await started(spec, null, lease, 'resumed')
        // An error here needs no handling: QEMU ends by itself if the stream breaks off.
        if (qemu.incoming !== null) pipeline(state, qemu.incoming, { signal }).catch(() => {})
        return await running(qemu, lease, signal)
      } catch (error) {
        state.destroy()
        throw error
      }
    },

    killLeft: (left: LeftMachine) => killLeftMachine(left),
  }
}

/** Loads the state that QEMU was started with, and lets the machine run. */
async function running(qemu: QemuProcess, lease: MachineLease, signal: AbortSignal): Promise<Machine> {
  const stop = (): void => void qemu.kill()
  signal.addEventListener('abort', stop, { once: true })
  try {
    await Promise.all([
      qemu.qmp.command('qmp_capabilities'),
      qemu.qmp.command('migrate-set-capabilities', SHARED_MEMORY),
      qemu.qmp.command('migrate-incoming', { uri: `fd:${FDS.state}` }),
    ])
    await loaded(qemu)
    // The monitor stays open for `save`. It allows no more than the QEMU process may do, so a guest that
    // takes over QEMU gains nothing by it.
    await qemu.qmp.command('cont')
  } catch (error) {
    await qemu.kill()
    throw signal.aborted ? signal.reason : explained(error, qemu)
  } finally {
    signal.removeEventListener('abort', stop)
  }
  return {
    ref: lease.id,
    connect: qemu.connect,
    save: (to, until) => streamState(qemu, lease.folder, to, until),
    goOn: async () => void (await qemu.qmp.command('cont')),
    kill: () => qemu.kill(),
    exited: qemu.exited,
    [Symbol.asyncDispose]: () => qemu.kill(),
  }
}

function explained(error: unknown, qemu: QemuProcess): unknown {
  const said = qemu.said()
  if (said === '' || !isCofferdamError(error)) return error
  return new CofferdamError(error.code, `${error.message}: ${said.split('\n').at(-1)?.slice(0, 300) ?? ''}`, {
    cause: error,
    details: { ...error.details, said },
  })
}

/** The counter's kHz, from /proc/cpuinfo, where bogomips are twice the counter's MHz. */
async function counterOfHost(): Promise<number> {
  const info = await readFile('/proc/cpuinfo', 'utf8').catch(() => '')
  const [, bogomips] = /^bogomips\s*:\s*([\d.]+)$/m.exec(info) ?? []
  return Math.round(Number(bogomips ?? 4000) * 500)
}

async function whichSetpriv(): Promise<string | null> {
  return access('/usr/bin/setpriv', constants.X_OK).then(
    () => '/usr/bin/setpriv',
    () => null,
  )
}

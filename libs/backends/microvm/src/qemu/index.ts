/**
 * The engine `qemu`: its machine type `microvm`, on KVM where that is hardware, else emulated. An emulated
 * machine is a real second kernel, but no boundary: QEMU's own security policy covers hardware virtualisation
 * alone.
 */
import { execFile } from 'node:child_process'
import { constants } from 'node:fs'
import { access, chmod, open, readFile, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
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
import { FDS } from './arguments.ts'
import { startQemu, type QemuParts, type QemuProcess } from './virtual-machine.ts'

const MiB = 1_048_576
const LOOK_MS = 2
/** Memory stays in its file instead of the stream. Both sides must agree. */
const SHARED_MEMORY = { capabilities: [{ capability: 'x-ignore-shared', state: true }] }

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
    files: { state: string; memory: string },
    lease: Pick<MachineLease, 'id' | 'started'>,
    use: 'template' | 'clone',
  ): Promise<QemuProcess> {
    const start = { name: `cofferdam-${lease.id}`, accelerator, use, counterKhz } as const
    const qemu = await startQemu(parts, start, { ...files, spec, id: lease.id })
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
      const lease = { id: `template-${process.pid}`, started: () => Promise.resolve() }
      const qemu = await started(spec, template, lease, 'template')
      const stop = (): void => void qemu.kill()
      signal.addEventListener('abort', stop, { once: true })
      try {
        await qemu.qmp.command('qmp_capabilities')
        await prepare(qemu.connect)
        await qemu.qmp.command('stop')
        await qemu.qmp.command('migrate-set-capabilities', SHARED_MEMORY)
        // The monitor takes no number of an inherited descriptor here, as it does for `migrate-incoming`, and
        // the command inherits none.
        await qemu.qmp.command('migrate', { uri: `exec:cat >/proc/$PPID/fd/${FDS.state}` })
        await saved(qemu)
        return template
      } catch (error) {
        await qemu.kill()
        // The memory is a file that QEMU maps: where the disk is full, a write is a signal.
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
      const qemu = await started(template.spec, template, lease, 'clone')
      const stop = (): void => void qemu.kill()
      signal.addEventListener('abort', stop, { once: true })
      try {
        await Promise.all([
          qemu.qmp.command('qmp_capabilities'),
          qemu.qmp.command('migrate-set-capabilities', SHARED_MEMORY),
          qemu.qmp.command('migrate-incoming', { uri: `fd:${FDS.state}` }),
        ])
        await loaded(qemu)
        await qemu.qmp.command('cont')
        // The rights of this connection are those of the process. Nothing else is said on it.
        qemu.qmp.close()
      } catch (error) {
        await qemu.kill()
        throw signal.aborted ? signal.reason : explained(error, qemu)
      } finally {
        signal.removeEventListener('abort', stop)
      }
      return {
        ref: lease.id,
        connect: qemu.connect,
        kill: () => qemu.kill(),
        exited: qemu.exited,
        [Symbol.asyncDispose]: () => qemu.kill(),
      }
    },

    killLeft: (left: LeftMachine) => killLeftMachine(left),
  }
}

/** Waits until the state is in the file. */
async function saved(qemu: QemuProcess): Promise<void> {
  for (;;) {
    const told = (await qemu.qmp.command('query-migrate')) as { status?: string; 'error-desc'?: string }
    if (told.status === 'completed') return
    if (told.status === 'failed' || told.status === 'cancelled')
      throw new CofferdamError('sandbox_open_failed', `the state was not saved: ${told['error-desc'] ?? ''}`)
    await sleep(LOOK_MS)
  }
}

/**
 * Waits until the state is there. The saved machine was stopped, so it is; a `cont` before that is forgotten.
 */
async function loaded(qemu: QemuProcess): Promise<void> {
  for (;;) {
    const { status } = (await qemu.qmp.command('query-status')) as { status?: string }
    if (status === 'paused') return
    if (status !== 'inmigrate')
      throw new CofferdamError('sandbox_open_failed', `qemu: the clone is ${status}`)
    await sleep(LOOK_MS)
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

/** Of /proc/cpuinfo, whose bogomips are twice the MHz of the counter. */
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

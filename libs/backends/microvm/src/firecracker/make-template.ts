/**
 * A template: a machine that is booted once, prepared, saved, and ended. It never runs on after that, because
 * it would draw the same random numbers as a clone.
 *
 *   cold boot → guest prepared → paused → saved → killed → files taken from the jail, read-only
 */
import { constants } from 'node:fs'
import { open, rename } from 'node:fs/promises'
import { join } from 'node:path'
import type { Duplex } from 'node:stream'
import type { Connect, MachineSpec, MachineTemplate } from '../engine.ts'
import { endMachine, stopMachine } from './end-machine.ts'
import { INSIDE, jailId, planJail } from './jail.ts'
import { watchExit } from './machine-exit.ts'
import { abandonedJails, claimJail, disclaimJail } from './made-by.ts'
import type { FirecrackerSettings } from './settings.ts'
import { asOpenFailed, startVmm, type StartedVmm, type StartParts } from './start-machine.ts'
import * as call from './swagger.ts'
import { connectVsock } from './vsock.ts'

const MiB = 1_048_576
/** The VMM may write files that are this much larger than the guest's memory. */
const STATE_MIB = 64

/**
 * These replace Firecracker’s own arguments (docs/api_requests, BootSource). There is no console, because
 * each byte that a guest prints costs a VM exit. The kernel trusts the processor’s random numbers at boot;
 * the thaw gives each clone its own. The last word makes the first process listen on vsock.
 */
export const BOOT_ARGUMENTS =
  'quiet loglevel=1 reboot=k panic=1 pci=off random.trust_cpu=on i8042.noaux 8250.nr_uarts=0 ' +
  'cgroup_no_v1=all cofferdam.ports=vsock'

/**
 * While a guest boots, the VMM takes two seconds to close a connection that nobody accepts. An attempt must
 * last longer.
 */
const BOOT_HANDSHAKE_MS = 2500

/** `folder` exists and is empty. Leaves no process and no jail when it throws. */
export async function makeTemplate(
  parts: StartParts,
  cgroupMount: string,
  request: { spec: MachineSpec; folder: string; prepare: (connect: Connect) => Promise<void> },
  signal: AbortSignal,
): Promise<MachineTemplate> {
  const { timings, uids, settings } = parts
  const { spec, folder } = request
  const makers = makersOf(settings)
  await endAbandoned(parts, cgroupMount)
  const jail = planJail(settings, cgroupMount, jailId('template', folder))
  await claimJail(makers, jail.id)
  const files = { kernel: spec.kernel, initramfs: spec.initramfs, rootfs: spec.root }
  const use = { ...spec, fileMib: spec.memoryMib + STATE_MIB }
  let vmm: StartedVmm | null = null
  try {
    vmm = await startVmm(parts, jail, { files, use }, signal)
    await boot(vmm, spec, timings.answerMs)
    await prepared(vmm, request.prepare, timings.bootMs, signal)
    await vmm.api.call(call.pauseMachine(), timings.answerMs)
    await vmm.api.call(
      call.createSnapshot({ state: INSIDE.state, memory: INSIDE.memory }),
      timings.snapshotMs,
    )
    await stopMachine(jail, vmm.process)
    return {
      spec,
      state: await takeFile(jail.root, INSIDE.state, join(folder, 'state'), 1),
      memory: await takeFile(jail.root, INSIDE.memory, join(folder, 'memory'), spec.memoryMib * MiB),
    }
  } catch (error) {
    signal.throwIfAborted()
    throw asOpenFailed(error, vmm?.log.tail() ?? '')
  } finally {
    vmm?.api.close()
    await vmm?.log.close()
    await endMachine(jail, vmm?.process ?? null, uids)
    await disclaimJail(makers, jail.id)
  }
}

const makersOf = ({ chrootBase }: FirecrackerSettings): string => join(chrootBase, 'makers')

/** Ends templates that dead workers were making. */
async function endAbandoned({ settings, uids }: StartParts, cgroupMount: string): Promise<void> {
  const makers = makersOf(settings)
  for (const id of await abandonedJails(makers)) {
    await endMachine(planJail(settings, cgroupMount, id), null, uids)
    await disclaimJail(makers, id)
  }
}

async function boot({ api }: StartedVmm, spec: MachineSpec, withinMs: number): Promise<void> {
  const { kernel, initramfs, root, vsock } = INSIDE
  for (const one of [
    call.putMachineConfig(spec),
    call.putBootSource({ kernel, initramfs, args: BOOT_ARGUMENTS }),
    call.putReadOnlyDrive('rootfs', root),
    call.putVsock(vsock),
    call.putEntropy(),
    call.startInstance(),
  ])
    await api.call(one, withinMs)
}

/**
 * Lets `prepare` talk to the guest. Ends all streams when `prepare` is done, because a snapshot would reset
 * them.
 */
async function prepared(
  vmm: StartedVmm,
  prepare: (connect: Connect) => Promise<void>,
  withinMs: number,
  signal: AbortSignal,
): Promise<void> {
  const ended = new AbortController()
  const stop = new AbortController()
  const streams: Duplex[] = []
  const exit = watchExit(vmm, stop.signal).then(() => {
    ended.abort(new Error('The machine ended while it booted.'))
  })
  const limit = AbortSignal.any([signal, ended.signal])
  const late = Promise.withResolvers<never>()
  const timer = setTimeout(() => {
    late.reject(new Error(`The guest was not ready within ${withinMs} ms.`))
  }, withinMs)
  const aborted = (): void => late.reject(limit.reason)
  limit.addEventListener('abort', aborted, { once: true })
  try {
    const connect: Connect = async (port) => {
      const answerMs = BOOT_HANDSHAKE_MS
      const stream = await connectVsock(vmm.jail.vsock, port, { withinMs, answerMs, signal: limit })
      streams.push(stream)
      return stream
    }
    await Promise.race([prepare(connect), late.promise])
  } finally {
    clearTimeout(timer)
    limit.removeEventListener('abort', aborted)
    stop.abort()
    await exit
    for (const stream of streams) stream.destroy()
  }
}

/** Moves a file out of the jail. Refuses a symlink, a second hard link, and a file that is too short. */
async function takeFile(root: string, inside: string, to: string, leastBytes: number): Promise<string> {
  const from = join(root, inside)
  const file = await open(from, constants.O_RDONLY | constants.O_NOFOLLOW)
  try {
    const found = await file.stat()
    if (!found.isFile() || found.nlink !== 1 || found.size < leastBytes)
      throw new Error(`Firecracker left no usable ${inside.slice(1)}.`)
    await rename(from, to).catch((cause: unknown) => {
      if ((cause as NodeJS.ErrnoException).code !== 'EXDEV') throw cause
      throw new Error(`Templates (${to}) and chroot_base must be on one file system.`, { cause })
    })
    await file.chown(0, 0)
    await file.chmod(0o444)
  } finally {
    await file.close()
  }
  return to
}

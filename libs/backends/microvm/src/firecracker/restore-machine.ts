/**
 * A clone of a template, used once: its own VMM and jail, the template’s files by links. The API is closed
 * right after the load, and its socket removed: nothing else is ever to be said to the VMM.
 */
import { unlink } from 'node:fs/promises'
import { CofferdamError } from '@cofferdam/contract'
import type { Machine, MachineExit, MachineLease, MachineTemplate } from '../engine.ts'
import { endMachine } from './end-machine.ts'
import { INSIDE, jailId, planJail } from './jail.ts'
import { watchExit } from './machine-exit.ts'
import { asOpenFailed, startVmm, type StartedVmm, type StartParts } from './start-machine.ts'
import { loadSnapshot } from './swagger.ts'
import { connectVsock } from './vsock.ts'

/** The largest file that the VMM of a clone may write. It writes none, apart from its sockets and its pid. */
const CLONE_FILES_MIB = 16

export async function restoreMachine(
  parts: StartParts,
  cgroupMount: string,
  template: MachineTemplate,
  lease: MachineLease,
  signal: AbortSignal,
): Promise<Machine> {
  const { settings, timings, uids } = parts
  const jail = planJail(settings, cgroupMount, jailId('clone', lease.id))
  const files = { rootfs: template.spec.root, state: template.state, memory: template.memory }
  const use = { ...template.spec, fileMib: CLONE_FILES_MIB }
  const started = (pid: number): Promise<void> => lease.started(pid)
  const vmm = await startVmm(parts, jail, { files, use, started }, signal)
  try {
    await vmm.api.call(loadSnapshot(INSIDE), timings.answerMs)
    vmm.api.close()
    await unlink(jail.api)
    return machineOf(parts, vmm)
  } catch (error) {
    const tail = vmm.log.tail()
    vmm.api.close()
    await vmm.log.close()
    await endMachine(jail, vmm.process, uids)
    signal.throwIfAborted()
    throw asOpenFailed(error, tail)
  }
}

function machineOf({ timings, uids }: StartParts, vmm: StartedVmm): Machine {
  const { jail, log } = vmm
  const ended = new AbortController()
  const exited: Promise<MachineExit> = watchExit(vmm, ended.signal).then((exit) => {
    ended.abort(new CofferdamError('sandbox_open_failed', 'The machine has ended.'))
    return exit
  })
  let killing: Promise<void> | null = null

  async function end(): Promise<void> {
    ended.abort(new CofferdamError('sandbox_open_failed', 'The machine was killed.'))
    await exited
    await log.close()
    await endMachine(jail, vmm.process, uids)
  }
  const kill = (): Promise<void> => {
    killing ??= end()
    const mine = killing
    mine.catch(() => {
      if (killing === mine) killing = null
    })
    return mine
  }

  return {
    ref: jail.id,
    connect: (port) =>
      connectVsock(jail.vsock, port, {
        withinMs: timings.connectMs,
        answerMs: timings.handshakeMs,
        signal: ended.signal,
      }),
    kill,
    exited,
    [Symbol.asyncDispose]: kill,
  }
}

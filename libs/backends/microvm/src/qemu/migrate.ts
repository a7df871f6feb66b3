/** A machine's state into a stream and back. QEMU calls both a migration. */
import { once } from 'node:events'
import { open } from 'node:fs/promises'
import { createServer, type Socket } from 'node:net'
import { join } from 'node:path'
import type { Writable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { setTimeout as sleep } from 'node:timers/promises'
import { CofferdamError } from '@cofferdam/contract'
import { FDS } from './arguments.ts'
import type { QemuProcess } from './virtual-machine.ts'

const LOOK_MS = 2
/** QEMU's default limit of 128 MiB/s is meant for machines that run during the migration. */
const NO_LIMIT = { 'max-bandwidth': 2 ** 40 }
/**
 * Memory that is mapped from a shared file is not put into the stream. Only a template has such memory. Both
 * sides of a migration must agree.
 */
export const SHARED_MEMORY = { capabilities: [{ capability: 'x-ignore-shared', state: true }] }

/** Waits until QEMU has written the state. Throws `sandbox_open_failed` if it could not. */
export async function saved(qemu: QemuProcess): Promise<void> {
  const { status, why } = await settled(qemu)
  if (status !== 'completed')
    throw new CofferdamError('sandbox_open_failed', `the state was not saved: ${why}`)
}

/**
 * Waits until the state is loaded. The machine is then paused, as it was when it was saved. QEMU forgets a
 * `cont` that comes earlier.
 */
export async function loaded(qemu: QemuProcess): Promise<void> {
  for (;;) {
    const { status } = (await qemu.qmp.command('query-status')) as { status?: string }
    if (status === 'paused') return
    if (status !== 'inmigrate')
      throw new CofferdamError('sandbox_open_failed', `qemu: the machine is ${status}`)
    await sleep(LOOK_MS)
  }
}

/**
 * Stops the machine and streams its state and memory to `to`. QEMU opens no file: it connects to a socket in
 * the folder that it inherited. The folder is named by its descriptor, because its path may be too long for a
 * socket address. After a failure the machine is stopped, and no migration is left.
 */
export async function streamState(
  qemu: QemuProcess,
  folder: string,
  to: Writable,
  signal: AbortSignal,
): Promise<void> {
  const name = 'save'
  await using own = await open(folder, 'r')
  const connections: Socket[] = []
  const server = createServer((socket) => void connections.push(socket))
  const ended = new AbortController()
  const bound = AbortSignal.any([signal, ended.signal])
  // A machine that dies never connects, so stop waiting for its connection.
  void qemu.exited.then(() => ended.abort(new CofferdamError('sandbox_lost')))
  try {
    server.listen({ path: join(`/proc/self/fd/${own.fd}`, name), writableAll: true })
    await once(server, 'listening')
    await qemu.qmp.command('stop')
    await qemu.qmp.command('migrate-set-capabilities', SHARED_MEMORY)
    await qemu.qmp.command('migrate-set-parameters', NO_LIMIT)
    const connected = once(server, 'connection', { signal: bound })
    connected.catch(() => {})
    await qemu.qmp.command('migrate', { uri: `unix:/proc/self/fd/${FDS.folder}/${name}` })
    const [socket] = (await connected) as [Socket]
    await pipeline(socket, to, { signal: bound })
    await saved(qemu)
  } catch (error) {
    to.destroy()
    await qemu.qmp.command('migrate_cancel').catch(() => {})
    await settled(qemu).catch(() => {})
    throw bound.aborted ? bound.reason : error
  } finally {
    // A connection that came too late would keep the server from closing.
    for (const connection of connections) connection.destroy()
    await new Promise((resolve) => server.close(resolve))
  }
}

/** Waits until no migration is under way. */
async function settled(qemu: QemuProcess): Promise<{ status: string; why: string }> {
  for (;;) {
    const told = (await qemu.qmp.command('query-migrate')) as { status?: string; 'error-desc'?: string }
    const { status = 'none' } = told
    if (ENDED.has(status)) return { status, why: told['error-desc'] ?? status }
    await sleep(LOOK_MS)
  }
}

const ENDED = new Set(['none', 'completed', 'failed', 'cancelled'])

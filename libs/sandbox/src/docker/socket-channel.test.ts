import { chmod, mkdir, mkdtemp, readdir, rm, stat, symlink, utimes } from 'node:fs/promises'
import { connect, type Socket } from 'node:net'
import { once } from 'node:events'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { newWorkerId } from '@cofferdam/contract'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { createSocketFolders } from './socket-channel.ts'

const owner = newWorkerId('0123456789ab')
const never = new AbortController().signal
let scratch = ''
let root = ''

beforeEach(async () => {
  scratch = await mkdtemp(join(tmpdir(), 'cofd-test-'))
  root = join(scratch, 'r')
})
afterEach(async () => {
  await rm(scratch, { recursive: true })
})

async function connected(path: string): Promise<Socket> {
  const socket = connect(path)
  await once(socket, 'connect')
  return socket
}

test('accepts one connection, and then removes socket and folder', async () => {
  const folders = createSocketFolders(root)
  const channel = await folders.listen(owner)
  const path = join(channel.folder, 's')
  const agent = await connected(path)
  const accepted = await channel.accept(never)
  await channel.close()
  await expect(stat(channel.folder)).rejects.toMatchObject({ code: 'ENOENT' })
  const second = connect(path)
  const [error] = await once(second, 'error')
  expect(error).toMatchObject({ code: 'ENOENT' })
  agent.write('frame')
  accepted.resume()
  const [data] = await once(accepted, 'data')
  expect(String(data)).toBe('frame')
  agent.destroy()
  accepted.destroy()
})

test('drops every connection but the first one', async () => {
  const channel = await createSocketFolders(root).listen(owner)
  const path = join(channel.folder, 's')
  const both = [connect(path), connect(path)]
  const closed = both.map((socket) => {
    socket.on('error', () => {})
    socket.resume()
    return new Promise((resolve) => socket.on('close', resolve))
  })
  const accepted = await channel.accept(never)
  await Promise.race(closed)
  await channel.close()
  expect(accepted.destroyed).toBe(false)
  accepted.destroy()
  await Promise.all(closed)
})

test('is closed to other users of the host, and allows only to connect from inside', async () => {
  const channel = await createSocketFolders(root).listen(owner)
  const mode = async (path: string): Promise<string> => ((await stat(path)).mode & 0o777).toString(8)
  expect(await mode(root)).toBe('700')
  expect(await mode(join(channel.folder, '..'))).toBe('700')
  expect(await mode(channel.folder)).toBe('711')
  expect(await mode(join(channel.folder, 's'))).toBe('666')
  await channel.close()
})

test('shows a program that reads its mounts no worker, sandbox or number in the names', async () => {
  const channel = await createSocketFolders(root).listen(owner)
  expect(channel.folder.slice(root.length)).toMatch(/^\/[0-9a-f]{16}\/[0-9a-f]{12}$/)
  expect(channel.folder).not.toContain(owner.slice(4, 16))
  await channel.close()
})

test('stops waiting after an abort, and closes without a trace', async () => {
  const folders = createSocketFolders(root)
  const channel = await folders.listen(owner)
  const reason = new Error('enough')
  const stop = new AbortController()
  const waiting = channel.accept(stop.signal)
  stop.abort(reason)
  await expect(waiting).rejects.toBe(reason)
  await Promise.all([channel.close(), channel.close()])
  await folders.close()
  expect(await readdir(scratch)).toEqual([])
})

test('sweeps what a dead worker left while it listened, and nothing of another worker', async () => {
  const died = createSocketFolders(root)
  const other = newWorkerId('0123456789ab')
  const left = await died.listen(owner)
  const kept = await died.listen(other)
  await createSocketFolders(root).sweep(owner)
  await expect(stat(left.folder)).rejects.toMatchObject({ code: 'ENOENT' })
  expect((await stat(kept.folder)).isDirectory()).toBe(true)
  // A swept worker that is still alive creates its folder again.
  const again = await died.listen(owner)
  await Promise.all([left.close(), kept.close(), again.close()])
})

test('removes old folders of unknown workers', async () => {
  const folders = createSocketFolders(root)
  const [old, young] = [await folders.listen(owner), await folders.listen(newWorkerId('0123456789ab'))]
  const anHourAgo = Date.now() / 1000 - 3_700
  await utimes(join(old.folder, '..'), anHourAgo, anHourAgo)
  await createSocketFolders(root).sweep(newWorkerId('0123456789ab'))
  expect(await readdir(root)).toEqual([young.folder.split('/').at(-2)])
  await Promise.all([old.close(), young.close()])
})

test('removes old folders when a worker starts too, because nobody sweeps some dead workers', async () => {
  const old = await createSocketFolders(root).listen(owner)
  const anHourAgo = Date.now() / 1000 - 3_700
  await utimes(join(old.folder, '..'), anHourAgo, anHourAgo)
  const begun = await createSocketFolders(root).listen(newWorkerId('0123456789ab'))
  expect(await readdir(root)).toEqual([begun.folder.split('/').at(-2)])
  await Promise.all([old.close(), begun.close()])
})

test.each([
  ['a link', async () => symlink(scratch, root)],
  ['open to others', async () => mkdir(root).then(() => chmod(root, 0o755))],
])('refuses a folder that is %s', async (_what, make) => {
  await make()
  await expect(createSocketFolders(root).listen(owner)).rejects.toMatchObject({ code: 'config_invalid' })
})

/**
 * E2B's unmodified SDK tests how the double watches folders, with the cases of the SDK's own tests of the
 * service (e2b-dev/E2B @b8029973, packages/js-sdk/tests/sandbox/files/watch.test.ts) and envd 0.5.7.
 */
import { FileNotFoundError, InvalidArgumentError, Sandbox, TimeoutError, type FilesystemEvent } from 'e2b'
import { needs } from '@cofferdam/embedded/needs'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { startE2bDouble, type E2bDouble } from '../double/e2b-double.ts'

const SOON = { timeout: 20_000 }

needs('bwrap').describe('E2B’s double, called by E2B’s SDK for watches,', () => {
  let double: E2bDouble
  let sandbox: Sandbox

  beforeAll(async () => {
    double = await startE2bDouble()
    sandbox = await Sandbox.create('base', {
      apiKey: double.apiKey,
      apiUrl: double.origin,
      sandboxUrl: double.origin,
      timeoutMs: 600_000,
    })
  })
  afterAll(async () => {
    await double[Symbol.asyncDispose]()
  })

  /** A watch of a folder, with the events so far. */
  async function watched(folder: string, options: { recursive?: boolean } = {}) {
    const heard: string[] = []
    const onEvent = ({ type, name }: FilesystemEvent): void => void heard.push(`${type} ${name}`)
    return { heard, handle: await sandbox.files.watchDir(folder, onEvent, options) }
  }

  it('reports that a file is created, changed and removed', async () => {
    await sandbox.files.makeDir('plain')
    const { heard, handle } = await watched('plain')
    await sandbox.files.write('plain/a.txt', 'first')
    await expect.poll(() => heard, SOON).toEqual(expect.arrayContaining(['create a.txt', 'write a.txt']))
    await sandbox.commands.run('chmod 600 plain/a.txt')
    await expect.poll(() => heard, SOON).toContain('chmod a.txt')
    await sandbox.files.rename('plain/a.txt', 'plain/b.txt')
    await expect.poll(() => heard, SOON).toEqual(expect.arrayContaining(['rename a.txt', 'create b.txt']))
    await sandbox.files.remove('plain/b.txt')
    await expect.poll(() => heard, SOON).toContain('remove b.txt')
    await handle.stop()
  })

  it('reports subfolders, even new ones, only if asked to', async () => {
    await sandbox.files.makeDir('outer/inner')
    const flat = await watched('outer')
    const deep = await watched('outer', { recursive: true })
    await sandbox.files.write('outer/inner/a.txt', 'x')
    await expect.poll(() => deep.heard, SOON).toContain('write inner/a.txt')
    await sandbox.files.makeDir('outer/added')
    await expect.poll(() => deep.heard, SOON).toContain('create added')
    await sandbox.files.write('outer/added/b.txt', 'x')
    await expect.poll(() => deep.heard, SOON).toContain('write added/b.txt')
    expect(flat.heard).toEqual(['create added'])
    await flat.handle.stop()
    await deep.handle.stop()
  })

  it('reports nothing more once the watch has stopped', async () => {
    await sandbox.files.makeDir('stopped')
    const first = await watched('stopped')
    const second = await watched('stopped')
    await first.handle.stop()
    await sandbox.files.write('stopped/a.txt', 'x')
    await expect.poll(() => second.heard, SOON).toContain('write a.txt')
    expect(first.heard).toEqual([])
    await second.handle.stop()
  })

  it('ends at the deadline of the watch', async () => {
    await sandbox.files.makeDir('brief')
    const ended = Promise.withResolvers<Error | undefined>()
    await sandbox.files.watchDir('brief', () => undefined, { timeoutMs: 500, onExit: ended.resolve })
    expect(await ended.promise).toBeInstanceOf(TimeoutError)
  })

  it('refuses a missing path and a path that is not a folder', async () => {
    await expect(watched('absent')).rejects.toBeInstanceOf(FileNotFoundError)
    await sandbox.files.write('file.txt', 'x')
    await expect(watched('file.txt')).rejects.toBeInstanceOf(InvalidArgumentError)
  })
})

/** Workspaces over HTTP: archives in both directions, versions, and the separation of tenants. */
import { CofferdamError } from '@cofferdam/contract'
import { packArchive, unpackArchive } from '@cofferdam/workspace-sync'
import { afterAll, beforeAll, expect, onTestFinished, test, vi } from 'vitest'
import { openScene, type Scene } from './scene.ts'

let scene: Scene
beforeAll(async () => {
  scene = await openScene()
})
afterAll(() => scene[Symbol.asyncDispose]())

const url = (name: string, tenant = 'acme') => `/v1/tenants/${tenant}/workspaces/${name}`
const archiveOf = async (texts: Record<string, string>): Promise<string> => {
  const files = Object.entries(texts).map(([path, text]) => ({ path, bytes: Buffer.from(text) }))
  return (await packArchive(files)).toString('base64')
}
const put = async (
  name: string,
  texts: Record<string, string>,
  expected_version: number,
  headers = scene.acme,
) =>
  scene.call({
    method: 'PUT',
    url: url(name),
    headers,
    payload: { archive_base64: await archiveOf(texts), expected_version },
  })

test('an archive is stored under a version and can be read back', async () => {
  expect((await put('w', { 'a/b.txt': 'one', c: 'two' }, 0)).json).toEqual({ version: 1, files: 2 })
  expect((await put('w', { c: 'late' }, 0)).status).toBe(409)
  expect((await put('w', { c: 'three' }, 1)).json).toEqual({ version: 2, files: 1 })
  const { json } = await scene.call({ method: 'GET', url: url('w'), headers: scene.acme })
  const files = await unpackArchive(Buffer.from(json.archive_base64, 'base64'))
  expect([json.version, files.map(({ path, bytes }) => [path, Buffer.from(bytes).toString()])]).toEqual([
    2,
    [['c', 'three']],
  ])
  const list = await scene.call({ method: 'GET', url: '/v1/tenants/acme/workspaces', headers: scene.acme })
  expect(list.json.workspaces).toMatchObject([{ name: 'w', version: 2, files: 1, bytes: 5 }])
})

test('a stale write to a workspace that was deleted and created again is refused', async () => {
  const read = async () => (await scene.call({ method: 'GET', url: url('r'), headers: scene.acme })).json
  const replace = async (expected_revision: string) =>
    (
      await scene.call({
        method: 'PUT',
        url: url('r'),
        headers: scene.acme,
        payload: { archive_base64: await archiveOf({ a: 'mine' }), expected_version: 1, expected_revision },
      })
    ).status
  await put('r', { a: 'first' }, 0)
  const first = await read()
  await scene.call({ method: 'DELETE', url: url('r'), headers: scene.acme })
  await put('r', { a: 'second' }, 0)
  const second = await read()
  expect([first.version, second.version]).toEqual([1, 1])
  expect(await replace(first.revision)).toBe(409)
  expect((await read()).revision).toBe(second.revision)
  expect(await replace(second.revision)).toBe(200)
})

test('an archive with a secret and a body that is no archive are refused and change nothing', async () => {
  const secret = await put('s', { 'deep/.SSH/id': 'k' }, 0)
  expect([secret.status, secret.json.error.message]).toEqual([
    400,
    expect.stringContaining('looks like a secret'),
  ])
  const payload = { archive_base64: Buffer.from('no zip').toString('base64'), expected_version: 0 }
  const none = await scene.call({ method: 'PUT', url: url('s'), headers: scene.acme, payload })
  expect([none.status, none.json.error.details.reason]).toEqual([400, 'not_an_archive'])
  expect((await scene.call({ method: 'GET', url: url('s'), headers: scene.acme })).status).toBe(404)
})

test('a tenant that has too many workspaces is told what to do', async () => {
  const commit = vi
    .spyOn(scene.store.workspaces, 'commit')
    .mockRejectedValueOnce(new CofferdamError('too_many_workspaces'))
  onTestFinished(() => commit.mockRestore())
  const { status, json } = await put('one-more', { a: '1' }, 0)
  expect([status, json.error]).toEqual([
    409,
    expect.objectContaining({
      code: 'too_many_workspaces',
      message: expect.stringContaining('as many workspaces as it may have'),
      hint: expect.stringContaining('Delete workspaces'),
      retry: 'never',
    }),
  ])
})

test('another tenant can neither read, write nor remove a workspace', async () => {
  await put('own', { a: '1' }, 0)
  for (const method of ['GET', 'DELETE'] as const)
    expect((await scene.call({ method, url: url('own'), headers: scene.globex })).status).toBe(403)
  expect((await put('own', { a: '2' }, 1, scene.globex)).status).toBe(403)
  expect((await scene.call({ method: 'DELETE', url: url('own'), headers: scene.acme })).status).toBe(204)
  expect((await scene.call({ method: 'GET', url: url('own'), headers: scene.acme })).status).toBe(404)
})

import { randomBytes } from 'node:crypto'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { recordCollection } from './sample-collection.ts'
import { openScene, type Scene } from './scene.ts'

const DAY_MS = 86_400_000

let scene: Scene
beforeAll(async () => {
  scene = await openScene({}, [{ id: 'k1', key: randomBytes(32) }])
})
afterAll(() => scene?.[Symbol.asyncDispose]())

const list = (run: string, headers = scene.acme, query = '') =>
  scene.call({ url: `/v1/sessions/${run}/outputs${query}`, headers })
const get = (run: string, path: string, headers: Record<string, string> = scene.acme) =>
  scene.call({ url: `/v1/sessions/${run}/outputs/${path}`, headers })
const collect = (run: string, files: Record<string, string>, more: object = {}) =>
  recordCollection(scene.store, { run, files, ...more })

describe('GET /v1/sessions/{id}/outputs', () => {
  it('lists the newest version of each path over all collections, and what the newest left out', async () => {
    const now = Date.now()
    const old = await collect('sesn_new', { 'a.txt': 'old', 'removed.txt': 'once' }, { atMs: now - 60_000 })
    const omitted = [{ path: 'huge', size: 9_000_000, reason: 'too_large' }]
    const outcome = { artifactsOmitted: omitted, artifactsIncomplete: true }
    const young = await collect('sesn_new', { 'b/c.txt': 'deep', 'a.txt': 'newer' }, { atMs: now, outcome })
    expect((await list('sesn_new')).json).toEqual({
      outputs: [
        {
          path: 'a.txt',
          size: 5,
          sha256: '804f51f71254c4081e37e7c887073560f4a6fa6cdad202e9ac67e032c43ed1e1',
          execution_id: young,
          stored_at: new Date(now + 1000).toISOString(),
        },
        {
          path: 'b/c.txt',
          size: 4,
          sha256: expect.any(String),
          execution_id: young,
          stored_at: new Date(now + 1000).toISOString(),
        },
        {
          path: 'removed.txt',
          size: 4,
          sha256: expect.any(String),
          execution_id: old,
          stored_at: new Date(now - 59_000).toISOString(),
        },
      ],
      newest: {
        execution_id: young,
        stored_at: new Date(now + 1000).toISOString(),
        omitted,
        incomplete: true,
      },
      truncated: false,
      next_cursor: null,
    })
    expect((await get('sesn_new', 'a.txt')).text).toBe('newer')
    expect((await get('sesn_new', 'removed.txt')).text).toBe('once')
  })

  it('is empty for a session of which nothing was collected', async () => {
    const nothing = { outputs: [], newest: null, truncated: false, next_cursor: null }
    expect(await list('sesn_nobody')).toMatchObject({ status: 200, json: nothing })
    const id = await collect('sesn_empty', {})
    expect((await list('sesn_empty')).json).toMatchObject({
      outputs: [],
      newest: { execution_id: id, omitted: [] },
    })
  })

  it('counts only collections of that session that ended well', async () => {
    const script = { type: 'script', language: 'python', source: 'files:collect:.session/outputs' } as const
    const read = { type: 'files', op: 'read', path: 'x' } as const
    await collect('sesn_mine', { mine: 'x' })
    await collect('sesn_other', { other: 'x' })
    await collect('sesn_mine', { read: 'x' }, { program: read })
    await collect('sesn_mine', { program: 'x' }, { program: script, outcome: { exitCode: 0, value: {} } })
    await collect('sesn_mine', { failed: 'x' }, { outcome: { ending: 'error', reason: 'sandbox_lost' } })
    expect((await list('sesn_mine')).json.outputs.map(({ path }: { path: string }) => path)).toEqual(['mine'])
    for (const path of ['read', 'program', 'failed']) expect((await get('sesn_mine', path)).status).toBe(404)
  })

  it('shows a tenant its own outputs only, and asks an admin whose it means', async () => {
    await collect('sesn_shared', { mine: 'of acme' })
    await collect('sesn_shared', { mine: 'of globex', theirs: 'x' }, { tenant: 'globex' })
    const paths = async (headers: { authorization: string }, query = '') =>
      (await list('sesn_shared', headers, query)).json.outputs.map(({ path }: { path: string }) => path)
    expect(await paths(scene.acme)).toEqual(['mine'])
    expect((await get('sesn_shared', 'mine')).text).toBe('of acme')
    expect((await get('sesn_shared', 'theirs')).status).toBe(404)
    expect(await paths(scene.admin, '?tenant_id=globex')).toEqual(['mine', 'theirs'])
    expect((await get('sesn_shared', 'mine?tenant_id=globex', scene.admin)).text).toBe('of globex')
    expect((await list('sesn_shared', scene.acme, '?tenant_id=globex')).status).toBe(403)
    expect((await get('sesn_shared', 'mine?tenant_id=globex')).status).toBe(403)
    expect((await list('sesn_shared', scene.admin)).json.error.code).toBe('invalid_request')
  })

  it('has pages, whose cursors work for that session alone', async () => {
    const long = `${'é'.repeat(120)}/${'é'.repeat(120)}/${'é'.repeat(120)}/${'é'.repeat(120)}`
    const names = ['a', 'b', long, 'é'.repeat(60)]
    await collect('sesn_paged', Object.fromEntries(names.map((name) => [name, 'x'])))
    await collect('sesn_paged2', { a: 'x' })
    const seen: string[] = []
    let cursor: string | null = null
    for (let page = 0; page < 4; page += 1) {
      const query: string = `?limit=1${cursor === null ? '' : `&cursor=${cursor}`}`
      const { json } = await list('sesn_paged', scene.acme, query)
      seen.push(...json.outputs.map(({ path }: { path: string }) => path))
      cursor = json.next_cursor
      expect(cursor === null).toBe(page === 3)
      if (cursor === null) continue
      expect((await list('sesn_paged2', scene.acme, `?cursor=${cursor}`)).status).toBe(400)
      expect((await list('sesn_paged', scene.globex, `?cursor=${cursor}`)).status).toBe(400)
    }
    expect(seen).toEqual(names.toSorted((a, b) => (a < b ? -1 : 1)))
    expect((await list('sesn_paged', scene.acme, '?limit=501')).status).toBe(400)
  })

  it('leaves out what has expired by the retention of rows or of outputs, before it is deleted', async () => {
    const now = Date.now()
    await collect('sesn_old', { gone: 'x', kept: 'old' }, { atMs: now - 3 * DAY_MS, retentionDays: 2 })
    await collect('sesn_old', { kept: 'newer' }, { atMs: now - 3 * DAY_MS + 1 })
    const paths = async () => (await list('sesn_old')).json.outputs.map(({ path }: { path: string }) => path)
    expect(await paths()).toEqual(['kept'])
    expect((await get('sesn_old', 'gone')).status).toBe(404)
    expect((await get('sesn_old', 'kept')).text).toBe('newer')

    await scene.store.tenants.setPolicy('acme', { output_retention_days: 3 }, 'test')
    expect(await paths()).toEqual(['kept'])
    await scene.store.tenants.setPolicy('acme', { output_retention_days: 2 }, 'test')
    expect((await list('sesn_old')).json).toMatchObject({ outputs: [], newest: null })
    expect((await get('sesn_old', 'kept')).status).toBe(404)
    await scene.store.tenants.setPolicy('acme', { output_retention_days: null }, 'test')
    expect(await paths()).toEqual(['kept'])
  })

  it('takes any ID of a run, also one that is the name of a backend', async () => {
    await collect('docker', { 'files/a': 'output' })
    expect((await list('docker')).json.outputs).toMatchObject([{ path: 'files/a' }])
    expect((await get('docker', 'files/a')).text).toBe('output')
    expect((await get('docker', 'files')).json.error.message).toMatch(
      /^The session has no output of that path/,
    )
  })
})

describe('GET /v1/sessions/{id}/outputs/{path}', () => {
  beforeAll(() => collect('sesn_get', { 'out/näme.html': '<script>0</script>' }))

  it('sends the file as a download, whole or a range of it', async () => {
    const path = 'out/n%C3%A4me.html'
    expect(await get('sesn_get', path)).toMatchObject({
      status: 200,
      text: '<script>0</script>',
      headers: {
        'content-type': 'text/plain; charset=utf-8',
        'x-content-type-options': 'nosniff',
        'content-disposition': `attachment; filename="n_me.html"; filename*=UTF-8''n%C3%A4me.html`,
        'content-security-policy': expect.stringContaining('sandbox'),
      },
    })
    const part = await get('sesn_get', path, { ...scene.acme, range: 'bytes=1-6' })
    expect(part).toMatchObject({ status: 206, text: 'script' })
    const etag = String(part.headers['etag'])
    expect((await get('sesn_get', path, { ...scene.acme, 'if-none-match': etag })).status).toBe(304)
  })

  it.each([
    ['out', 404],
    ['out/other', 404],
    ['..%2F..%2Fetc%2Fpasswd', 400],
    ['a/..%2F..%2Fb', 400],
    ['%2Fetc%2Fpasswd', 400],
    ['a%00b', 400],
    ['', 400],
    [`${'x'.repeat(600)}`, 400],
  ])('answers the path %j with %i', async (path, status) => {
    expect((await get('sesn_get', path)).status).toBe(status)
  })

  it.each(['-x', 'a b', 'x'.repeat(129), '%00'])('refuses the ID %j', async (run) => {
    expect((await list(encodeURI(run))).status).toBe(400)
  })

  it('answers 404 for an output whose bytes are gone', async () => {
    const id = await collect('sesn_gone', { a: 'x' })
    const refs = (await scene.store.findExecution('acme', id))?.artifactRefs ?? []
    for (const { ref } of refs) await scene.store.blobs.delete(ref)
    expect((await get('sesn_gone', 'a')).status).toBe(404)
  })

  it('sends what is stored encrypted', async () => {
    const id = await collect('sesn_sealed', { 'secret.txt': 'patient 4711' }, { encrypt: true })
    const [stored] = (await scene.store.findExecution('acme', id))?.artifactRefs ?? []
    expect(stored?.ref).toMatch(/-sealed$/)
    expect((await list('sesn_sealed')).json.outputs).toMatchObject([{ path: 'secret.txt', size: 12 }])
    expect((await get('sesn_sealed', 'secret.txt')).text).toBe('patient 4711')
    const part = await get('sesn_sealed', 'secret.txt', { ...scene.acme, range: 'bytes=-4' })
    expect(part).toMatchObject({ status: 206, text: '4711' })
  })
})

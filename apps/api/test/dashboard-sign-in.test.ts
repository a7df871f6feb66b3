/** How browsers sign in to the dashboard, with a key or a code, and what ends a sign-in. */
import { createHash } from 'node:crypto'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { ask, cookieOf, listen, OWN, signIn, type Reply } from './browser.ts'
import { openScene, type Scene } from './scene.ts'

let scene: Scene
let port: number
beforeAll(async () => {
  scene = await openScene()
  port = await listen(scene.app)
})
afterAll(() => scene?.[Symbol.asyncDispose]())

const MINUTE_MS = 60_000
const HOUR_MS = 60 * MINUTE_MS
const keyOf = ({ authorization }: { authorization: string }): string => authorization.slice('Bearer '.length)
const whoIs = (cookie: string, at = port): Promise<Reply> =>
  ask(at, { path: '/ui/session', headers: { cookie, 'sec-fetch-site': 'same-origin' } })
const newCode = async (authorization: string, at = port): Promise<string> =>
  (await ask(at, { method: 'POST', path: '/ui/codes', headers: { authorization } })).json.code

/** Another server whose clock the test moves. */
async function serverWithClock(): Promise<{ port: number; pass(ms: number): void }> {
  let aheadMs = 0
  const api = await scene.another({}, { now: () => Date.now() + aheadMs })
  return { port: await listen(api), pass: (ms) => (aheadMs += ms) }
}

describe('a key', () => {
  it('is exchanged for a cookie that scripts cannot read, and that only this host gets', async () => {
    const reply = await signIn(port, { api_key: keyOf(scene.acme) })
    expect(reply.status).toBe(200)
    expect(reply.json).toEqual({
      key_id: expect.any(String),
      scope: 'tenant',
      tenant_id: 'acme',
      read_only: false,
      expires_at: expect.any(String),
      version: expect.stringMatching(/^\d+\.\d+\.\d+/),
      jaeger_url: null,
    })
    expect(Date.parse(reply.json.expires_at) - Date.now()).toBeGreaterThan(11 * HOUR_MS)
    const [set = ''] = reply.headers['set-cookie'] ?? []
    expect(set).toMatch(/^__Host-cofferdam=[A-Za-z0-9_-]{43}; /)
    expect(set.split('; ').slice(1).toSorted()).toEqual(
      ['HttpOnly', 'Max-Age=604800', 'Path=/', 'SameSite=Strict', 'Secure'].toSorted(),
    )
    expect((await whoIs(cookieOf(reply))).json).toEqual(reply.json)
    const admin = await signIn(port, { api_key: keyOf(scene.admin) })
    expect(admin.json).toMatchObject({ scope: 'admin', tenant_id: null, read_only: false })
  })

  it('and its cookie are in no key or value of Redis', async () => {
    const cookie = cookieOf(await signIn(port, { api_key: keyOf(scene.acme) }))
    const secret = cookie.slice('__Host-cofferdam='.length)
    const names = await scene.redis.keys('*')
    const hash = createHash('sha256').update(secret).digest('hex')
    expect(names).toContain(`cfd:ui:sign-in:${hash}`)
    const values = await Promise.all(
      names.filter((name) => name.startsWith('cfd:ui:sign-in:')).map((name) => scene.redis.get(name)),
    )
    const text = JSON.stringify([names, values])
    expect(text).not.toContain(secret)
    expect(text).not.toContain(keyOf(scene.acme).slice(4))
    expect(await scene.redis.pttl(`cfd:ui:sign-in:${hash}`)).toBeLessThanOrEqual(12 * HOUR_MS)
  })

  it.each([
    [{ api_key: `cfd_${'1'.repeat(40)}` }, 401],
    [{ api_key: "' or true --" }, 401],
    [{ api_key: '' }, 400],
    [{ api_key: 'x'.repeat(201) }, 400],
    [{}, 400],
    [{ api_key: 'x', code: 'y' }, 400],
    [{ api_key: 7 }, 400],
    [{ code: 'x'.repeat(43) }, 401],
    [[], 400],
  ])('such as %j is refused', async (body, status) => {
    const at = await listen(await scene.another())
    const reply = await signIn(at, body)
    expect(reply.status).toBe(status)
    expect(reply.headers['set-cookie']).toBeUndefined()
  })

  it('is not read from a large body, of which anybody could send many', async () => {
    const reply = await signIn(port, { api_key: 'x'.repeat(2000) })
    expect(reply).toMatchObject({ status: 413, json: { error: { code: 'payload_too_large' } } })
  })

  it('that fails ten times a minute is refused with 429, and one that worked is not', async () => {
    const at = await serverWithClock()
    expect((await signIn(at.port, { api_key: keyOf(scene.acme) })).status).toBe(200)
    const guess = (n: number) => signIn(at.port, { api_key: `cfd_${String(n).padStart(40, '0')}` })
    const statuses: number[] = []
    for (let n = 0; n < 12; n += 1) statuses.push((await guess(n)).status)
    expect(statuses).toEqual([...Array.from({ length: 10 }, () => 401), 429, 429])
    const limited = await signIn(at.port, { code: 'x'.repeat(43) })
    expect(limited).toMatchObject({ status: 429, json: { error: { code: 'rate_limited' } } })
    expect(Number(limited.headers['retry-after'])).toBeGreaterThan(0)
    expect((await signIn(at.port, { api_key: keyOf(scene.acme) })).status).toBe(200)
    at.pass(MINUTE_MS)
    expect((await guess(0)).status).toBe(401)
  })
})

describe('a code', () => {
  it('signs in once, as the key that asked for it, and never again', async () => {
    const code = await newCode(scene.globex.authorization)
    expect(await signIn(port, { code })).toMatchObject({ status: 200, json: { tenant_id: 'globex' } })
    expect(await signIn(port, { code })).toMatchObject({ status: 401 })
  })

  it('signs in one of many that send it at the same time', async () => {
    const at = await listen(await scene.another())
    const code = await newCode(scene.globex.authorization, at)
    const replies = await Promise.all(Array.from({ length: 8 }, () => signIn(at, { code })))
    expect(replies.filter(({ status }) => status === 200)).toHaveLength(1)
  })

  it('replaces another key that is signed in only if a person agreed, and is kept until then', async () => {
    const code = await newCode(scene.globex.authorization)
    const cookie = cookieOf(await signIn(port, { api_key: keyOf(scene.acme) }))
    const reply = await signIn(port, { code }, { cookie })
    expect(reply).toMatchObject({ status: 409, json: { error: { code: 'conflict' } } })
    expect(reply.headers['set-cookie']).toBeUndefined()
    expect((await whoIs(cookie)).json).toMatchObject({ tenant_id: 'acme' })
    const same = await signIn(port, { code: await newCode(scene.acme.authorization) }, { cookie })
    expect(same).toMatchObject({ status: 200, json: { tenant_id: 'acme' } })
    const agreed = await signIn(port, { code, replace: true }, { cookie: cookieOf(same) })
    expect(agreed).toMatchObject({ status: 200, json: { tenant_id: 'globex' } })
    expect((await whoIs(cookieOf(same))).status).toBe(401)
  })

  it('is refused after ten minutes', async () => {
    const at = await serverWithClock()
    const code = await newCode(scene.acme.authorization, at.port)
    at.pass(10 * MINUTE_MS)
    expect((await signIn(at.port, { code })).status).toBe(401)
  })

  it('is made for a key alone, never for a cookie', async () => {
    const cookie = cookieOf(await signIn(port, { api_key: keyOf(scene.acme) }))
    const asked = await ask(port, { method: 'POST', path: '/ui/codes', headers: { ...OWN, cookie } })
    expect(asked.status).toBe(401)
  })

  it('replaces the oldest one of its key when it has too many', async () => {
    const first = await newCode(scene.acme.authorization)
    for (let n = 0; n < 20; n += 1) await newCode(scene.acme.authorization)
    expect((await signIn(port, { code: first })).status).toBe(401)
    const names = await scene.redis.keys('cfd:ui:code:*')
    expect(names.length).toBeLessThanOrEqual(40)
  })
})

describe('a sign-in', () => {
  it('ends when it is signed out, also for a copy of its cookie', async () => {
    const cookie = cookieOf(await signIn(port, { api_key: keyOf(scene.acme) }))
    const out = await ask(port, { method: 'DELETE', path: '/ui/session', headers: { ...OWN, cookie } })
    expect(out.status).toBe(204)
    expect(out.headers['set-cookie']?.[0]).toMatch(/^__Host-cofferdam=; .*Max-Age=0/)
    expect((await whoIs(cookie)).status).toBe(401)
  })

  it('ends the one before it in the same browser', async () => {
    const before = cookieOf(await signIn(port, { api_key: keyOf(scene.acme) }))
    const after = cookieOf(await signIn(port, { api_key: keyOf(scene.acme) }, { cookie: before }))
    expect(after).not.toBe(before)
    expect([(await whoIs(before)).status, (await whoIs(after)).status]).toEqual([401, 200])
  })

  it('lasts while it is used, for seven days at most, and twelve hours without use', async () => {
    const at = await serverWithClock()
    const used = cookieOf(await signIn(at.port, { api_key: keyOf(scene.acme) }))
    const unused = cookieOf(await signIn(at.port, { api_key: keyOf(scene.acme) }))
    const ends: number[] = []
    for (let day = 0; day < 14; day += 1) {
      at.pass(11.9 * HOUR_MS)
      const reply = await whoIs(used, at.port)
      expect(reply.status).toBe(200)
      ends.push(Date.parse(reply.json.expires_at))
      if (day === 1) expect((await whoIs(unused, at.port)).status).toBe(401)
    }
    // A sign-in lasts seven days at most, so its last use here extends it only up to that limit.
    expect((ends[13] ?? 0) - (ends[12] ?? 0)).toBeLessThan(2 * HOUR_MS)
    at.pass(2 * HOUR_MS)
    expect((await whoIs(used, at.port)).status).toBe(401)
  })

  it('survives another API over the same Redis, as after a restart', async () => {
    const cookie = cookieOf(await signIn(port, { api_key: keyOf(scene.acme) }))
    const first = await scene.another()
    const other = await listen(first)
    expect((await whoIs(cookie, other)).status).toBe(200)
    await first.close()
    expect((await whoIs(cookie, await listen(await scene.another()))).status).toBe(200)
  })

  it('ends when its key is revoked: at once here, within seconds elsewhere', async () => {
    const elsewhere = await serverWithClock()
    const { id, key } = await scene.store.keys.create({ tenant_id: 'acme' }, 'leaver')
    const cookie = cookieOf(await signIn(port, { api_key: key }))
    const code = await newCode(`Bearer ${key}`)
    expect((await whoIs(cookie, elsewhere.port)).status).toBe(200)
    const path = `/v1/tenants/acme/keys/${id}`
    expect((await ask(port, { method: 'DELETE', path, headers: scene.admin })).status).toBe(204)
    elsewhere.pass(5000)
    for (const at of [port, elsewhere.port]) {
      expect((await whoIs(cookie, at)).status).toBe(401)
      const list = { path: '/v1/executions', headers: { cookie, 'sec-fetch-site': 'same-origin' } }
      expect((await ask(at, list)).status).toBe(401)
    }
    expect((await signIn(port, { code })).status).toBe(401)
    expect(await scene.redis.keys(`cfd:ui:*-of:${id}`)).toEqual([])
  })

  it('is one of at most a hundred of its key: the oldest ends', async () => {
    const at = await listen(await scene.another())
    const { key } = await scene.store.keys.create({ tenant_id: 'acme' }, 'many')
    const oldest = cookieOf(await signIn(at, { api_key: key }))
    let newest = ''
    for (let n = 0; n < 100; n += 1) newest = cookieOf(await signIn(at, { api_key: key }))
    expect([(await whoIs(oldest, at)).status, (await whoIs(newest, at)).status]).toEqual([401, 200])
  })

  it('does not end because others of its key have ended or expired', async () => {
    const at = await listen(await scene.another())
    const { key, id } = await scene.store.keys.create({ tenant_id: 'acme' }, 'used')
    const used = cookieOf(await signIn(at, { api_key: key }))
    const another = async (): Promise<string> => cookieOf(await signIn(at, { api_key: key }))
    for (let n = 0; n < 60; n += 1)
      await ask(at, { method: 'DELETE', path: '/ui/session', headers: { ...OWN, cookie: await another() } })
    for (let n = 0; n < 60; n += 1) {
      const hash = createHash('sha256')
        .update((await another()).slice('__Host-cofferdam='.length))
        .digest('hex')
      await scene.redis.del(`cfd:ui:sign-in:${hash}`)
    }
    await another()
    expect((await whoIs(used, at)).status).toBe(200)
    expect(await scene.redis.zcard(`cfd:ui:sign-in-of:${id}`)).toBeLessThanOrEqual(100)
  })
})

describe('a connection in clear text', () => {
  const body = () => ({ api_key: keyOf(scene.acme) })

  it.each([
    [{ host: 'fleet.example.com' }, 403],
    [{ host: '192.0.2.7:7070', origin: 'http://192.0.2.7:7070' }, 403],
    [{ host: 'fleet.example.com', origin: 'http://fleet.example.com', 'x-forwarded-proto': 'https' }, 403],
    [{ host: 'fleet.example.com', origin: 'https://fleet.example.com' }, 200],
    [{ host: 'fleet.example.com', 'x-forwarded-proto': 'https' }, 200],
    [{ host: 'localhost:7070', origin: 'http://localhost:7070' }, 200],
    [{ host: '[::1]:7070' }, 200],
    [{ host: 'localhost.evil.example' }, 403],
    [{ host: 'a b' }, 403],
  ])('with %j gets %d', async (headers, status) => {
    const reply = await ask(port, { method: 'POST', path: '/ui/session', body: body(), headers })
    expect(reply.status).toBe(status)
    if (status === 403) expect(reply.json.error.message).toMatch(/https|another page/)
    expect(reply.headers['set-cookie'] === undefined).toBe(status === 403)
  })
})

it('tells operators alone where Jaeger is, because it shows the traces of all tenants', async () => {
  const jaegerUrl = 'https://traces.example.com/jaeger'
  const at = await listen(await scene.another({}, { jaegerUrl }))
  expect((await signIn(at, { api_key: keyOf(scene.admin) })).json.jaeger_url).toBe(jaegerUrl)
  expect((await signIn(at, { api_key: keyOf(scene.acme) })).json.jaeger_url).toBeNull()
})

it('behind a proxy that changes Host, the public address is ours and no other is', async () => {
  const publicUrl = 'https://fleet.example.com'
  const at = await listen(await scene.another({}, { publicUrl }))
  const body = { api_key: keyOf(scene.acme) }
  const from = (origin: string) => ({ host: 'api:7070', origin, 'x-cofferdam-ui': '1' })
  const post = (origin: string) =>
    ask(at, { method: 'POST', path: '/ui/session', body, headers: from(origin) })
  const reply = await post(publicUrl)
  expect(reply.status).toBe(200)
  const cookie = cookieOf(reply)
  const list = (origin: string) => ask(at, { path: '/v1/executions', headers: { ...from(origin), cookie } })
  expect((await list(publicUrl)).status).toBe(200)
  for (const other of ['https://fleet.example.com:444', 'http://fleet.example.com', 'https://example.com'])
    expect([(await post(other)).status, (await list(other)).status]).toEqual([403, 403])
})

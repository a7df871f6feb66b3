/** The rules of sessions and their events, asked without the SDK. */
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { startManagedAgents, type ManagedAgentsDouble } from './managed-agents-double.ts'
import { ask, claim, tokenIn } from './sdk-judge.ts'
import type { Session } from './session.ts'

const SOON = 15_000

let double: ManagedAgentsDouble
beforeEach(async () => {
  double = await startManagedAgents({ ping_ms: 20 })
})
afterEach(() => double.close())

const post = (session: Session, ...events: object[]) =>
  ask(double, 'POST', `/v1/sessions/${session.id}/events`, { key: double.environmentKey, body: { events } })
const list = async (session: Session, query: string): Promise<string[]> => {
  const { body } = await ask(double, 'GET', `/v1/sessions/${session.id}/events?${query}`, {
    key: double.apiKey,
  })
  return (body as { data: { type: string }[] }).data.map(({ type }) => type)
}
const result = (id: string, text = 'ok') => ({
  type: 'user.tool_result',
  tool_use_id: id,
  content: [{ type: 'text', text }],
  is_error: false,
})
const askedOf = async (session: Session, count = 1): Promise<string[]> =>
  (await session.untilAsked(count)).map(({ id }) => id)

/** Frames of the session's stream as they come. */
async function streamOf(session: Session): Promise<{ frames: () => string[]; ended: Promise<string> }> {
  const headers = {
    authorization: `Bearer ${double.environmentKey}`,
    'anthropic-version': '2023-06-01',
    'anthropic-beta': 'managed-agents-2026-04-01',
  }
  const response = await fetch(`${double.url}/v1/sessions/${session.id}/events/stream`, { headers })
  let text = ''
  const read = async (): Promise<string> => {
    const decoder = new TextDecoder()
    try {
      for await (const chunk of response.body ?? []) text += decoder.decode(chunk, { stream: true })
    } catch {
      return 'broken'
    }
    return 'ended'
  }
  const ended = read()
  const frames = (): string[] =>
    text
      .split('\n\n')
      .slice(0, -1)
      .filter((frame) => !frame.startsWith('event: ping'))
  await expect.poll(() => text, { timeout: SOON }).toContain('event: ping')
  return { frames, ended }
}

describe('posted results', () => {
  it('are recorded once, and resolve the session when all are there', async () => {
    const session = double.createSession({ script: [{ tool_uses: [{ name: 'a' }, { name: 'b' }] }] })
    const [a = '', b = ''] = await askedOf(session, 2)
    expect(session.events.at(-1)).toMatchObject({
      stop_reason: { type: 'requires_action', event_ids: [a, b] },
    })
    expect((await post(session, result(b))).body).toEqual({
      data: [{ ...result(b), id: expect.stringMatching(/^sevt_/), processed_at: expect.any(String) }],
    })
    expect(session.events.at(-1)).toMatchObject({ stop_reason: { type: 'requires_action', event_ids: [a] } })
    expect((await post(session, result(b))).status).toBe(400)
    expect((await post(session, result(a))).status).toBe(200)
    await session.untilIdle()
    expect(session.events.slice(-2)).toMatchObject([
      { type: 'session.status_running' },
      { type: 'session.status_idle', stop_reason: { type: 'end_turn' }, stop_details: null },
    ])
    expect([...session.results.values()].map(({ answers }) => answers)).toEqual([1, 2])
  })

  it.each([
    ['an unknown call', () => result('sevt_none')],
    [
      'a custom result for a tool use',
      (id: string) => ({ type: 'user.custom_tool_result', custom_tool_use_id: id }),
    ],
    ['an empty text', (id: string) => result(id, '')],
    ['an unknown block', (id: string) => ({ ...result(id), content: [{ type: 'thinking', thinking: 'x' }] })],
    ['an unknown field', (id: string) => ({ ...result(id), exit_code: 0 })],
    [
      'a confirmation that nobody asked for',
      (id: string) => ({ type: 'user.tool_confirmation', tool_use_id: id, result: 'allow' }),
    ],
    ['an event that only the service emits', () => ({ type: 'session.status_idle' })],
  ])('of %s are refused', async (_, event) => {
    const session = double.createSession({ script: [{ tool_use: { name: 'a' } }] })
    const [a = ''] = await askedOf(session)
    const before = session.events.length
    expect((await post(session, event(a))).status).toBe(400)
    expect(session.events).toHaveLength(before)
  })

  it('are taken all or none', async () => {
    const session = double.createSession({ script: [{ tool_uses: [{ name: 'a' }, { name: 'b' }] }] })
    const [a = '', b = ''] = await askedOf(session, 2)
    expect((await post(session, result(a), result(a))).status).toBe(400)
    expect((await post(session, result(a), result('sevt_none'))).status).toBe(400)
    expect(session.results.get(a)?.result).toBeNull()
    expect((await post(session, result(a), result(b))).status).toBe(200)
  })

  it('of a call that waits for a confirmation are refused until it is allowed', async () => {
    const session = double.createSession({
      script: [{ tool_use: { name: 'a', evaluated_permission: 'ask' } }],
    })
    const [a = ''] = await askedOf(session)
    expect((await post(session, result(a))).status).toBe(400)
    const confirmation = { type: 'user.tool_confirmation', tool_use_id: a, result: 'allow' }
    expect((await post(session, { ...confirmation, deny_message: 'why' })).status).toBe(400)
    expect((await post(session, confirmation, { ...confirmation, result: 'deny' })).status).toBe(400)
    expect((await post(session, confirmation)).status).toBe(200)
    expect((await post(session, confirmation)).status).toBe(400)
    expect((await post(session, result(a))).status).toBe(200)
  })

  it('of a denied call are refused, and an error result stands for it', async () => {
    const session = double.createSession({
      script: [{ tool_use: { name: 'a', evaluated_permission: 'ask' } }],
    })
    const [a = ''] = await askedOf(session)
    session.confirm(a, 'deny', 'Not today.')
    await session.untilIdle()
    expect(session.events.find(({ type }) => type === 'agent.tool_result')).toMatchObject({
      tool_use_id: a,
      is_error: true,
      content: [{ type: 'text', text: 'Not today.' }],
    })
    expect((await post(session, result(a))).status).toBe(400)
  })

  it('to a terminated session are refused, and a deleted session does not exist', async () => {
    const session = double.createSession({ script: [{ tool_use: { name: 'a' } }] })
    const [a = ''] = await askedOf(session)
    session.terminate()
    expect((await post(session, result(a))).status).toBe(400)
    session.delete()
    expect((await post(session, result(a))).status).toBe(404)
  })
})

describe('the stream', () => {
  it('sends named frames from now on, with pings between them', async () => {
    const session = double.createSession({
      script: [{ message: 'before' }, { idle: 'end_turn' }, { message: 'after' }],
    })
    await session.untilIdle()
    const { frames, ended } = await streamOf(session)
    session.send('go on')
    await session.untilIdle()
    const sent = session.events.slice(-4)
    await expect
      .poll(frames, { timeout: SOON })
      .toEqual(sent.map((event) => `event: ${event.type}\ndata: ${JSON.stringify(event)}`))
    session.delete()
    expect(await ended).toBe('ended')
    expect(frames().at(-1)).toContain('event: session.deleted')
  })

  it('breaks after so many events', async () => {
    double.inject({ kind: 'cut', after_events: 2 })
    const session = double.createSession({ script: [{ wait: 'stream' }, { message: 'a' }, { message: 'b' }] })
    const { frames, ended } = await streamOf(session)
    expect(await ended).toBe('broken')
    expect(frames().map((frame) => frame.split('\n')[0])).toEqual([
      'event: session.status_running',
      'event: agent.message',
    ])
    expect(double.faultsLeft).toEqual([])
  })

  it('repeats the history and every event', async () => {
    double.inject({ kind: 'replay' })
    const session = double.createSession({ script: [{ message: 'a' }, { idle: 'end_turn' }] })
    await session.untilIdle()
    const { frames } = await streamOf(session)
    await expect.poll(() => frames().length, { timeout: SOON }).toBe(2 * session.events.length)
  })
})

it('history is filtered by type and time', async () => {
  const session = double.createSession({ script: [{ message: 'a' }] })
  await session.untilIdle()
  expect(await list(session, 'types[]=user.message&types[]=agent.message')).toEqual([
    'user.message',
    'agent.message',
  ])
  expect(await list(session, 'limit=1&order=desc')).toEqual(['session.status_idle'])
  expect(await list(session, 'created_at[gt]=2999-01-01T00:00:00Z')).toEqual([])
  expect(await list(session, 'created_at[lte]=2999-01-01T00:00:00Z')).toHaveLength(4)
  const refused = ['limit=0', 'limit=1001', 'order=up', 'page=x', 'created_at[gt]=now']
  for (const query of refused) {
    const asked = await ask(double, 'GET', `/v1/sessions/${session.id}/events?${query}`, {
      key: double.apiKey,
    })
    expect(asked.status, query).toBe(400)
  }
})

it('memory stores refuse the environment key, and a token reaches the stores of its session alone', async () => {
  const session = double.createSession({ memoryStores: [{ name: 'mine', memories: { '/a': '1' } }] })
  const other = double.createSession({ memoryStores: [{ name: 'other' }], queued: false })
  const pathOf = ({ profile }: Session): string => {
    const [resource] = profile.resources
    return `/v1/memory_stores/${resource?.type === 'memory_store' ? resource.memory_store_id : ''}/memories`
  }
  const token = tokenIn(await claim(double))
  const statusOf = async (of: Session, key: string): Promise<number> =>
    (await ask(double, 'GET', pathOf(of), { key })).status
  expect(await statusOf(session, double.environmentKey)).toBe(403)
  expect(await statusOf(session, token)).toBe(200)
  expect(await statusOf(other, token)).toBe(403)
  expect(await statusOf(other, double.apiKey)).toBe(200)
})

it('a session shows where its memory is mounted', () => {
  const session = double.createSession({
    memoryStores: [{ name: 'User  Preferences!' }, { name: 'x', access: 'read_only', mountPath: null }],
  })
  expect(session.profile.resources).toMatchObject([
    { mount_path: '/mnt/memory/user-preferences-', access: 'read_write' },
    { mount_path: null, access: 'read_only' },
  ])
})

it('a script that fails ends the session, and the waits say why', async () => {
  const session = double.createSession({ script: () => Promise.reject(new Error('a fault of the test')) })
  await expect(session.untilIdle()).rejects.toThrow('a fault of the test')
})

it('a wait that fails names the last events', async () => {
  const session = double.createSession({ script: [{ tool_use: { name: 'a' } }] })
  await askedOf(session)
  await expect(session.until('rain', () => false, 20)).rejects.toThrow(
    'waited 20 ms for rain. Last events: user.message, session.status_running, agent.tool_use, session.status_idle',
  )
})

/**
 * A worker that stops at one point of the main path, for tests of its death or stall there. It wraps the real
 * worker's handling of executions, so that production code contains nothing for tests.
 *
 * An execution of tenant `<STOP_PREFIX>-<point>` stops at that point: the parent process gets `{ stopped:
 * <point> }`, and the execution waits until the parent sends `go on`. `{ over: <point> }` follows its end,
 * and `{ aborted: <point> }` its signal. With STOP_DEAF the worker ignores the signal, like a worker that has
 * not learned yet that it lost the execution.
 */
import { loadConfig, runWorker, type WorkerOptions } from '@cofferdam/worker'

/** In the order in which a successful execution reaches them. */
export const POINTS = [
  'after take',
  'after policy',
  'after admit',
  'after open',
  'begin unanswered',
  'after begin',
  'running',
  'after end',
  'after audit row',
  'after result',
  'before ack',
] as const
export type Point = (typeof POINTS)[number]

type Carry = Parameters<NonNullable<WorkerOptions['around']>>[0]
type Taken = Parameters<Carry>[0]
type Deps = Parameters<Carry>[1]

export const tenantOf = (prefix: string, point: Point): string => `${prefix}-${point.replaceAll(' ', '-')}`

const prefix = process.env['STOP_PREFIX']
const isDeaf = process.env['STOP_DEAF'] !== undefined

const goOn = Promise.withResolvers<void>()

async function stopAt(point: Point): Promise<void> {
  process.send?.({ stopped: point })
  await goOn.promise
}

/**
 * Wraps a method of `target` so that it stops before or after the call. With `unanswered` it stops after a
 * call whose answer is lost, and calls again, as the queue does when its connection breaks.
 */
function around<T extends object>(
  target: T,
  name: keyof T,
  stops: { before?: Point; unanswered?: Point; after?: Point },
  reach: (point: Point) => Promise<boolean>,
): T {
  const { before, unanswered, after } = stops
  const method: unknown = target[name]
  const wrapped = async (...args: unknown[]): Promise<unknown> => {
    const call = async (): Promise<unknown> => Reflect.apply(method as () => unknown, target, args)
    if (before !== undefined) await reach(before)
    let answer = await call()
    if (unanswered !== undefined && (await reach(unanswered))) answer = await call()
    if (after !== undefined) await reach(after)
    return answer
  }
  return new Proxy(target, {
    get: (from, key) => (key === name ? wrapped : (Reflect.get(from, key, from) as unknown)),
  })
}

const stopping =
  (prefix: string) =>
  (carry: Carry): Carry =>
  async (taken: Taken, deps: Deps) => {
    const stop = POINTS.find((point) => taken.request.tenant_id === tenantOf(prefix, point))
    if (stop === undefined) return carry(taken, deps)
    const reach = async (point: Point): Promise<boolean> => {
      if (point === stop) await stopAt(point)
      return point === stop
    }
    taken.signal.addEventListener('abort', () => process.send?.({ aborted: stop }))
    await reach('after take')
    const begins = around(
      taken,
      'begin',
      { before: 'after open', unanswered: 'begin unanswered', after: 'after begin' },
      reach,
    )
    const settles = around(begins, 'settle', { after: 'after result' }, reach)
    const emit: Taken['emit'] = (event) => {
      taken.emit(event)
      if (event.type === 'output') void reach('running')
    }
    const own = { emit, ...(isDeaf ? { signal: new AbortController().signal } : {}) }
    const wrapped = new Proxy(settles, {
      get: (from, key) => Reflect.get(key in own ? own : from, key) as unknown,
    })
    try {
      await carry(wrapped, {
        ...deps,
        policies: around(deps.policies, 'read', { after: 'after policy' }, reach),
        admission: around(
          around(deps.admission, 'admit', { after: 'after admit' }, reach),
          'keepCharge',
          { before: 'after end' },
          reach,
        ),
        store: around(deps.store, 'record', { after: 'after audit row' }, reach),
      })
      await reach('before ack')
    } finally {
      process.send?.({ over: stop })
    }
  }

if (process.argv[1] === import.meta.filename && prefix !== undefined) {
  const worker = await runWorker(loadConfig(), { around: stopping(prefix) })
  process.on('message', (message) => {
    if (message === 'go on') goOn.resolve()
  })
  process.on('SIGTERM', () => void worker.close().then(() => process.exit(0)))
  process.send?.('ready')
}

/** Listens to messages for all workers (cancellations, due times) and to assignments to this worker. */
import type { Redis } from 'ioredis'
import { channelsOf } from './cell.ts'
import { LANES, type Lane } from './keys.ts'

export interface ControlListener {
  start(): void
  stop(): void
  /** Calls `onDue` in `ms` milliseconds, unless an earlier call is planned. */
  dueIn(ms: number): void
}

/** Due times further away than this get no timer. A heartbeat reports them again long before. */
const FAR_MS = 60_000

/** Messages may be lost. The heartbeat reports the same facts. */
export function createControlListener(
  subscriber: Redis,
  workerId: string,
  {
    onCancel,
    onDue,
    onAssigned,
  }: { onCancel: (id: string) => void; onDue: () => void; onAssigned: (lane: Lane) => void },
): ControlListener {
  let timer: NodeJS.Timeout | null = null
  let dueAtMs = Number.POSITIVE_INFINITY

  const dueIn = (ms: number): void => {
    const atMs = performance.now() + ms
    if (ms > FAR_MS || atMs >= dueAtMs) return
    if (timer !== null) clearTimeout(timer)
    dueAtMs = atMs
    // One millisecond late, so that Redis's clock has certainly reached the due time.
    timer = setTimeout(() => {
      timer = null
      dueAtMs = Number.POSITIVE_INFINITY
      onDue()
    }, ms + 1)
  }

  const assigned = channelsOf(subscriber).assigned + workerId

  const onMessage = (channel: string, message: string): void => {
    if (channel === assigned) for (const lane of LANES) if (lane === message) onAssigned(lane)
    if (channel !== channelsOf(subscriber).control) return
    const [word, argument = ''] = message.split(' ')
    if (word === 'cancel') onCancel(argument)
    if (word === 'due') dueIn(Number(argument))
  }

  return {
    start() {
      subscriber.on('message', onMessage)
      subscriber
        .subscribe(channelsOf(subscriber).control, assigned)
        .catch(() => undefined /* heartbeats carry the same facts */)
    },
    stop() {
      subscriber.off('message', onMessage)
      subscriber.unsubscribe(assigned).catch(() => undefined /* gone with the connection */)
      if (timer !== null) clearTimeout(timer)
      timer = null
    },
    dueIn,
  }
}

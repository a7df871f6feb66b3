/** Listens to what concerns all workers at once: cancellations, and when something delayed is due. */
import type { Redis } from 'ioredis'
import { CHANNELS } from './keys.ts'

export interface ControlListener {
  start(): void
  stop(): void
  /** Calls `onDue` in `ms` milliseconds, unless an earlier call is planned. */
  dueIn(ms: number): void
}

/** Longest planned timer; heartbeats plan again long before. */
const FAR_MS = 60_000

/** Messages may be lost: the heartbeat reports cancellations and due times too. */
export function createControlListener(
  subscriber: Redis,
  { onCancel, onDue }: { onCancel: (id: string) => void; onDue: () => void },
): ControlListener {
  let timer: NodeJS.Timeout | null = null
  let dueAtMs = Number.POSITIVE_INFINITY

  const dueIn = (ms: number): void => {
    const atMs = performance.now() + ms
    if (ms > FAR_MS || atMs >= dueAtMs) return
    if (timer !== null) clearTimeout(timer)
    dueAtMs = atMs
    // One millisecond later than promised, so that Redis' clock has reached the due time for certain.
    timer = setTimeout(() => {
      timer = null
      dueAtMs = Number.POSITIVE_INFINITY
      onDue()
    }, ms + 1)
  }

  const onMessage = (channel: string, message: string): void => {
    if (channel !== CHANNELS.control) return
    const [word, argument = ''] = message.split(' ')
    if (word === 'cancel') onCancel(argument)
    if (word === 'due') dueIn(Number(argument))
  }

  return {
    start() {
      subscriber.on('message', onMessage)
      subscriber.subscribe(CHANNELS.control).catch(() => undefined /* heartbeats carry the same facts */)
    },
    stop() {
      subscriber.off('message', onMessage)
      if (timer !== null) clearTimeout(timer)
      timer = null
    },
    dueIn,
  }
}

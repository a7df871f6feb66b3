import { useEffect, useState } from 'preact/hooks'
import type { Queue } from '../queue/queue.ts'

/** Looks that are kept: ten minutes of one every two seconds. */
const KEPT = 300

export interface History {
  running: readonly number[]
  waiting: readonly number[]
}

/** What the page saw since it was opened. It is gone when the page is. */
export function useHistory(queue: Queue | null): History {
  const [history, setHistory] = useState<History>({ running: [], waiting: [] })
  useEffect(() => {
    if (queue === null) return
    const lanes = Object.values(queue.lanes)
    const running = lanes.reduce((all, lane) => all + lane.running, 0)
    const waiting = lanes.reduce((all, lane) => all + lane.queued, 0)
    setHistory((before) => ({
      running: [...before.running, running].slice(-KEPT),
      waiting: [...before.waiting, waiting].slice(-KEPT),
    }))
  }, [queue])
  return history
}

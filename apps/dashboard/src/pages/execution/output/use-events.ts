/** Follows the events of an execution while it lives and the page is seen. */
import type { ExecutionEvent } from '@cofferdam/client'
import { useEffect, useRef, useState } from 'preact/hooks'
import { createLineBuffer, type Block } from './line-buffer.ts'

export interface SeenEvents {
  blocks: readonly Block[]
  /** Lines that came, and those of them that are kept. */
  count: number
  kept: number
  /** The last notices, the newest last. */
  notices: readonly string[]
  state: 'connecting' | 'live' | 'lost' | 'ended'
}

const TYPES = ['queued', 'started', 'output', 'progress', 'notice', 'ended'] as const
const MOST_NOTICES = 20
/**
 * When a proxy answers 502 while the API restarts, EventSource does not reconnect. The page then opens a new
 * one after this time.
 */
const AGAIN_MS = 2000
/**
 * After each redraw, the page pauses for this many times the duration of the redraw. So it responds to input
 * during a flood of events.
 */
const REST = 4

/**
 * `follows` false closes the stream. `onChange` is called when the execution started or ended, so that its
 * state is read again. Events that come together are shown together, once a frame at most.
 */
export function useEvents(id: string, follows: boolean, onChange: () => void): SeenEvents {
  const buffer = useRef(createLineBuffer())
  const notices = useRef<string[]>([])
  const changed = useRef(onChange)
  changed.current = onChange
  const [state, setState] = useState<SeenEvents['state']>('connecting')
  const [, setFrame] = useState(0)

  useEffect(() => {
    if (!follows) return undefined
    let after: string | null = null
    let source: EventSource | null = null
    let timer: ReturnType<typeof setTimeout> | undefined
    let frame = 0
    let rest: ReturnType<typeof setTimeout> | undefined
    let isStale = false
    const redraw = (): void => {
      isStale = true
      frame ||= requestAnimationFrame(draw)
    }
    const draw = (startMs: number): void => {
      isStale = false
      setFrame((before) => before + 1)
      const rested = (): void => {
        frame = 0
        if (isStale) redraw()
      }
      // The outer timer fires after the browser has drawn the frame, so the measured time includes the
      // drawing.
      rest = setTimeout(() => {
        rest = setTimeout(rested, REST * (performance.now() - startMs))
      })
    }
    const take = (message: MessageEvent<string>): void => {
      after = message.lastEventId
      const event = JSON.parse(message.data) as ExecutionEvent
      if (event.type === 'output') buffer.current.add(event.stream, event.text)
      if (event.type === 'notice') notices.current = [...notices.current, event.message].slice(-MOST_NOTICES)
      if (event.type === 'started' || event.type === 'ended') changed.current()
      redraw()
    }
    const close = (): void => {
      clearTimeout(timer)
      source?.close()
      source = null
    }
    const open = (): void => {
      close()
      const query = after === null || after === '' ? '' : `?after=${encodeURIComponent(after)}`
      source = new EventSource(`/v1/executions/${id}/events${query}`)
      for (const type of TYPES) source.addEventListener(type, take)
      source.addEventListener('open', () => setState('live'))
      source.addEventListener('error', () => {
        setState('lost')
        // The browser closes the source for good after a 204 (the execution has ended) and after a 502. In
        // the first case, reading the state again ends this effect.
        if (source?.readyState !== EventSource.CLOSED) return
        changed.current()
        timer = setTimeout(open, AGAIN_MS)
      })
    }
    const seen = (): void => {
      if (document.hidden) close()
      else if (source === null) open()
    }
    document.addEventListener('visibilitychange', seen)
    seen()
    return () => {
      close()
      cancelAnimationFrame(frame)
      clearTimeout(rest)
      document.removeEventListener('visibilitychange', seen)
    }
  }, [id, follows])

  return {
    blocks: buffer.current.blocks(),
    count: buffer.current.count(),
    kept: buffer.current.kept(),
    notices: notices.current,
    state: follows ? state : 'ended',
  }
}

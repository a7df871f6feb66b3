/** The list as a component uses it: the page that the address names, kept fresh if it is the newest. */
import { useEffect, useState } from 'preact/hooks'
import { asFailure, type Failure } from '../../api/failure.ts'
import type { ListQuery } from './filters.ts'
import { followRows } from './follow-rows.ts'
import { readFeed, readPage } from './load-rows.ts'
import { goneOnes, MOST_ARRIVED, NO_ROWS, withArrived, withRows, type RowList } from './row-list.ts'

export interface Rows {
  /** Null before the first page came. */
  list: RowList | null
  next: string | null
  moreLive: boolean
  failure: Failure | null
  /** Puts what arrived on top. Loads the list again when too much arrived. */
  letIn: () => void
  reload: () => void
}

export function useRows(query: ListQuery): Rows {
  const of = JSON.stringify(query)
  const [list, setList] = useState<RowList | null>(null)
  const [page, setPage] = useState({ next: null as string | null, moreLive: false })
  const [failure, setFailure] = useState<Failure | null>(null)
  const [count, setCount] = useState(0)
  const reload = (): void => setCount((before) => before + 1)

  useEffect(() => {
    const ended = new AbortController()
    const { signal } = ended
    let stop = (): void => undefined
    let last: RowList = NO_ROWS
    const show = (next: RowList): void => {
      last = next
      setList(next)
    }
    setList(null)
    setFailure(null)
    const start = async (): Promise<void> => {
      // The feed’s cursor is read before the page, so that no execution that ends in between is missed.
      const isNewest = query.cursor === null
      const { cursor } = isNewest ? await readFeed(query, 'now', '0s', signal) : { cursor: '' }
      const found = await readPage(query, signal)
      show({ shown: found.rows, arrived: [] })
      setPage({ next: found.next, moreLive: found.moreLive })
      if (!isNewest) return
      stop = followRows(query, cursor, {
        onFailure: setFailure,
        gone: (live) => goneOnes(last, live),
        onRows: (rows) => {
          setList((before) => {
            last = withRows(before ?? NO_ROWS, rows)
            return last
          })
        },
      })
    }
    start().catch((error: unknown) => {
      if (!signal.aborted) setFailure(asFailure(error))
    })
    return () => {
      ended.abort()
      stop()
    }
  }, [of, count])

  const letIn = (): void => {
    if (list === null) return
    if (list.arrived.length >= MOST_ARRIVED) reload()
    else setList(withArrived(list))
  }
  return { list, ...page, failure, letIn, reload }
}

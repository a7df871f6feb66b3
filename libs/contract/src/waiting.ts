/** Waiting that ends, with a signal or after a time. What was waited for goes on: whoever started it owns what it yields. */
/** Settles as `work` does, or rejects with the signal's reason once it aborts. A late rejection of `work` is swallowed. */
export function unlessAborted<T>(work: Promise<T>, signal: AbortSignal): Promise<T> {
  return new Promise((resolve, reject) => {
    const onAbort = (): void => reject(signal.reason)
    if (signal.aborted) onAbort()
    else signal.addEventListener('abort', onAbort, { once: true })
    const over = (): void => signal.removeEventListener('abort', onAbort)
    settle(work, over, resolve, reject)
  })
}

/** Settles as `work` does, or rejects with what `late` makes after `ms`; it is not called otherwise. A late rejection of `work` is swallowed. */
export function inTime<T>(work: Promise<T>, ms: number, late: () => Error): Promise<T> {
  return new Promise((resolve, reject) => {
    let judging: NodeJS.Immediate | undefined
    const timer = setTimeout(() => {
      // Not before what has come was read: a process that stood still itself proves nothing.
      judging = setImmediate(() => reject(late()))
    }, ms)
    const over = (): void => {
      clearTimeout(timer)
      clearImmediate(judging)
    }
    settle(work, over, resolve, reject)
  })
}

/** Several per execution: a race would cost three promises more. */
function settle<T>(
  work: Promise<T>,
  over: () => void,
  resolve: (value: T) => void,
  reject: (error: unknown) => void,
): void {
  work.then(
    (value) => {
      over()
      resolve(value)
    },
    (error: unknown) => {
      over()
      reject(error)
    },
  )
}

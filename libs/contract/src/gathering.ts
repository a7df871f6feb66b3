/** Calls that are made before the process turns to its next event, sent together. */

interface Waiting<Item, Answer> {
  item: Item
  resolve(answer: Answer): void
  reject(error: unknown): void
}

/**
 * Returns a call. `send` gets the items of those that were made in one turn, in their order and at most `max` at a time, and
 * answers each at its place; an Error there is the failure of that one call, a rejection that of all.
 */
export function createGathering<Item, Answer>(
  send: (items: readonly Item[]) => Promise<readonly (Answer | Error)[]>,
  max: number,
): (item: Item) => Promise<Answer> {
  let waiting: Waiting<Item, Answer>[] = []

  function sendAll(): void {
    const sent = waiting
    if (sent.length === 0) return
    waiting = []
    send(sent.map(({ item }) => item)).then(
      (answers) => {
        for (const [at, one] of sent.entries()) {
          const answer = answers[at]
          if (answer instanceof Error) one.reject(answer)
          // A place that `send` left out is its own fault, and seen by whoever reads the answer.
          else one.resolve(answer as Answer)
        }
      },
      (error: unknown) => {
        for (const one of sent) one.reject(error)
      },
    )
  }

  return (item) =>
    new Promise<Answer>((resolve, reject) => {
      waiting.push({ item, resolve, reject })
      // Comes when all that is ready to run has run.
      if (waiting.length === 1) process.nextTick(sendAll)
      else if (waiting.length >= max) sendAll()
    })
}

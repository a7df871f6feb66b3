/**
 * Long-running operations of the management plane: each ends after some answers of `InProgress`. Its caller
 * gets a polling URL in `Azure-AsyncOperation` (status in the body) or in `Location` (202 until the end).
 */
import { randomUUID } from 'node:crypto'
import { Refusal } from '../exchange.ts'

/** How a caller polls an operation. */
type Way = 'status' | 'result'

export interface ArmAnswer {
  status: number
  body?: unknown
  /** Where the caller polls next; `here`: at the same URL. */
  place?: { way: Way; id: string } | 'here'
}

interface Operation {
  /** Remaining answers of `InProgress`. */
  left: number
  end: 'Succeeded' | 'Failed'
  finish(): Promise<void>
}

const PLACES: Record<Way, RegExp> = {
  status:
    /^\/subscriptions\/[\w-]+\/providers\/Microsoft\.App\/locations\/[\w-]+\/operationStatuses\/([\w-]+)$/,
  result:
    /^\/subscriptions\/[\w-]+(?:\/providers\/Microsoft\.App\/locations\/[\w-]+)?\/operationresults\/([\w-]+)$/i,
}
const SUBSCRIPTION = '/subscriptions/00000000-0000-0000-0000-000000000000'

/** Polling headers with URLs of this origin. A 202 always has a `Location`. */
export function placeHeaders(
  { status }: ArmAnswer,
  place: NonNullable<ArmAnswer['place']>,
  origin: string,
): Record<string, string> {
  const again = { 'Retry-After': '0' }
  if (place === 'here') return again
  const { way, id } = place
  const url = `${origin}${SUBSCRIPTION}`
  if (way === 'result') return { ...again, Location: `${url}/operationresults/${id}?api-version=2021-04-01` }
  const placeOf = (kind: string): string =>
    `${url}/providers/Microsoft.App/locations/double/${kind}/${id}?api-version=2025-07-01`
  return {
    ...again,
    'Azure-AsyncOperation': placeOf('operationStatuses'),
    ...(status === 202 ? { Location: placeOf('operationResults') } : {}),
  }
}

/** All operations. Ended ones answer further polls too. */
export class Operations {
  readonly #operations = new Map<string, Operation>()

  isPlace(path: string): boolean {
    return PLACES.status.test(path) || PLACES.result.test(path)
  }

  /** Begins an operation. After `polls` polls, the next poll calls `finish` and ends it. */
  begin(
    status: number,
    way: Way,
    polls: number,
    finish: () => Promise<void>,
    end: Operation['end'] = 'Succeeded',
  ): ArmAnswer {
    const id = randomUUID()
    let finished: Promise<void> | null = null
    this.#operations.set(id, { left: polls, end, finish: () => (finished ??= finish()) })
    return { status, place: { way, id } }
  }

  async poll(path: string): Promise<ArmAnswer> {
    const way = PLACES.status.test(path) ? 'status' : 'result'
    const id = PLACES[way].exec(path)?.[1] ?? ''
    const operation = this.#operations.get(id)
    if (operation === undefined) throw new Refusal(404, 'OperationNotFound', 'There is no such operation.')
    operation.left -= 1
    const isOver = operation.left < 0
    if (isOver) await operation.finish()
    if (way === 'result') return isOver ? { status: 200 } : { status: 202, place: { way, id } }
    const status = isOver ? operation.end : 'InProgress'
    const error = { code: 'PoolFailed', message: 'The pool could not be made.' }
    return {
      status: 200,
      place: 'here',
      body: { id: path, name: id, status, ...(status === 'Failed' ? { error } : {}) },
    }
  }
}

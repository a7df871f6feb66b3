/** Cancels what a tenant has waiting or running, page by page, as one action of the command. */
import { parse } from '@cofferdam/contract'
import { z } from 'zod'
import type { ApiConnection } from './api-connection.ts'

const answerSchema = z.object({
  cancelled: z.number(),
  cancelling: z.number(),
  next_cursor: z.string().nullable(),
})

export interface CancelledTotal {
  cancelled: number
  cancelling: number
}

/** Goes on until nothing of that state is left of what was there at the start. */
export async function cancelTenant(
  api: ApiConnection,
  tenant: string,
  asked: { state: 'waiting' | 'running' | 'all'; agent_id?: string; reason?: string },
): Promise<CancelledTotal> {
  const total = { cancelled: 0, cancelling: 0 }
  let cursor: string | null = null
  do {
    const body: object = { ...asked, ...(cursor === null ? {} : { cursor }) }
    const path = `/v1/tenants/${encodeURIComponent(tenant)}/cancel`
    const page = parse(answerSchema, await api.call('POST', path, body), 'the answer')
    total.cancelled += page.cancelled
    total.cancelling += page.cancelling
    cursor = page.next_cursor
  } while (cursor !== null)
  return total
}

/** One line of it. */
export const showCancelled = ({ cancelled, cancelling }: CancelledTotal): string =>
  `${cancelled} ended before they ran, ${cancelling} told to stop`

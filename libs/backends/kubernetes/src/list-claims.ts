/** Lists claims page by page. */
import { z } from 'zod'
import { parsed, refused } from './claim-answers.ts'
import { claimSchema, type Claim } from './claim-state.ts'
import type { KubeAnswer } from './kube-api.ts'

const PAGE = 200
/** A list's version and its pages expire after minutes. Give up after this many slow lists. */
const TRIES = 3
const GONE = 410

const listSchema = z.object({
  metadata: z.object({ resourceVersion: z.string().nullish(), continue: z.string().nullish() }).nullish(),
  items: z.array(claimSchema).nullable(),
})

export interface ClaimList {
  claims: Claim[]
  /** The version that a watch continues from. */
  version: string
}

/** Returns all claims with these labels. Throws `refused` for an error status. */
export async function listClaims(
  ask: (query: URLSearchParams) => Promise<KubeAnswer>,
  labels: string,
): Promise<ClaimList> {
  let claims: Claim[] = []
  let tries = 1
  for (let next = ''; ;) {
    const query = new URLSearchParams({ labelSelector: labels, limit: String(PAGE) })
    if (next !== '') query.set('continue', next)
    const answer = await ask(query)
    if (answer.status === GONE && next !== '' && tries < TRIES) {
      // Start again at the first page, which has a new version.
      tries += 1
      claims = []
      next = ''
      continue
    }
    if (answer.status !== 200) throw refused(answer)
    const { items, metadata } = parsed(listSchema, answer, 'list of SandboxClaims')
    claims = [...claims, ...(items ?? [])]
    next = metadata?.continue ?? ''
    // All pages have the version of the first one.
    if (next === '') return { claims, version: metadata?.resourceVersion ?? '' }
  }
}

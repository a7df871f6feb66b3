/** Lists of claims, page by page. */
import { z } from 'zod'
import { parsed, refused } from './claim-answers.ts'
import { claimSchema, type Claim } from './claim-state.ts'
import type { KubeAnswer } from './kube-api.ts'

const PAGE = 200
/** Pages expire when the server forgets their version, which takes minutes; a list that is as slow as that again is left. */
const TRIES = 3
const GONE = 410

const listSchema = z.object({
  metadata: z.object({ resourceVersion: z.string().nullish(), continue: z.string().nullish() }).nullish(),
  items: z.array(claimSchema).nullable(),
})

export interface ClaimList {
  claims: Claim[]
  /** What a watch goes on from. */
  version: string
}

/** All claims with these labels. Throws what a refusal means. */
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
      // From the first page again, which is of a version of its own.
      tries += 1
      claims = []
      next = ''
      continue
    }
    if (answer.status !== 200) throw refused(answer)
    const { items, metadata } = parsed(listSchema, answer, 'list of SandboxClaims')
    claims = [...claims, ...(items ?? [])]
    next = metadata?.continue ?? ''
    // Later pages are of the first one's version.
    if (next === '') return { claims, version: metadata?.resourceVersion ?? '' }
  }
}

/** A key that is bound to a template: what its caller asks for runs under that one. */
import { CofferdamError } from '@cofferdam/contract'
import type { FastifyRequest } from 'fastify'

/**
 * `asked` under the template of the caller's key, where that is bound to one. Throws `forbidden` when it
 * names another: silence would let the caller believe in what does not hold.
 */
export function underBoundTemplate<T extends { template_id?: string | undefined }>(
  { caller }: FastifyRequest,
  asked: T,
): T {
  const bound = caller?.templateId ?? null
  if (bound === null) return asked
  if (asked.template_id !== undefined && asked.template_id !== bound)
    throw new CofferdamError(
      'forbidden',
      `The API key is bound to the template ${bound}; leave template_id out of the request.`,
    )
  return { ...asked, template_id: bound }
}

/** A known path with an unknown method is 405 with `Allow`, not 404: the caller's mistake is another one. */
import { CofferdamError } from '@cofferdam/contract'
import type { FastifyInstance, HTTPMethods } from 'fastify'

const METHODS: readonly HTTPMethods[] = ['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS']

/** Call before routes are added; answers the other methods of each path once all are there. */
export function refuseOtherMethods(app: FastifyInstance): { close(): void } {
  const taken = new Map<string, Set<string>>()
  let open = true
  app.addHook('onRoute', (route) => {
    if (!open) return
    const methods = taken.get(route.url) ?? new Set()
    for (const method of [route.method].flat()) methods.add(method)
    taken.set(route.url, methods)
  })
  return {
    close() {
      open = false
      for (const [url, methods] of taken) {
        const others = METHODS.filter((method) => !methods.has(method))
        const allow = [...methods].sort().join(', ')
        app.route({
          method: [...others],
          url,
          exposeHeadRoute: false,
          schema: { hide: true },
          // Before the body is read and before keys are checked: neither changes the answer.
          onRequest: async (_request, reply) => {
            void reply.header('allow', allow)
            throw new CofferdamError('method_not_allowed', `This path takes ${allow}.`)
          },
          handler: async () => undefined,
        })
      }
    },
  }
}

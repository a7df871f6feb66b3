/** What is not Anthropic's: faults and settings of the double over HTTP, with the API key. */
import type { Answer, Call, Route } from './router.ts'
import { badRequest, checked } from './wire-errors.ts'
import { faultSchema } from './faults.ts'
import { settingsSchema } from './settings.ts'

/** `routeNames` are the routes that a fault may name. */
export const doubleRoutes = (routeNames: readonly string[]): readonly Route[] => [
  {
    name: 'double.inject',
    method: 'POST',
    path: '/_double/inject',
    takes: ['api_key'],
    answer({ plane, body }: Call): Answer {
      const fault = checked(faultSchema, body)
      if ('route' in fault && !routeNames.includes(fault.route))
        throw badRequest(`route: expected one of ${routeNames.join(', ')}`)
      plane.faults.add(fault, routeNames)
      return { json: { left: plane.faults.left } }
    },
  },
  {
    name: 'double.configure',
    method: 'POST',
    path: '/_double/settings',
    takes: ['api_key'],
    answer({ plane, body }: Call): Answer {
      const change = Object.entries(checked(settingsSchema.partial(), body)).filter(
        ([, value]) => value !== undefined,
      )
      plane.configure(Object.fromEntries(change))
      return { json: plane.settings }
    },
  },
]

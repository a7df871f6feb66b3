/** Names of backends in the configuration. */
import { BACKENDS, isBackendName } from '@cofferdam/backends'
import { nearestName } from '@cofferdam/config'
import { z } from 'zod'

/** Refuses an unknown name, and suggests the nearest one. */
export const backendNameSchema = z.string().superRefine((name, context) => {
  if (isBackendName(name)) return
  const nearest = nearestName(name, Object.keys(BACKENDS))
  context.addIssue(`there is no backend ${name}${nearest === null ? '' : `; did you mean ${nearest}?`}`)
})

/**
 * Conformance of `azure` with a PythonLTS pool of the double whose sessions keep what an execution started (setting `detached`). Every
 * step is an execution there, so it takes minutes: only where all is required.
 */
import { test } from 'vitest'
import { exerciseAzure } from '../../test/azure-places.ts'

if (process.env['COFFERDAM_REQUIRE'] === 'all')
  await exerciseAzure('python', {
    detached: true,
    languages: ['python', 'javascript', 'typescript', 'bash'],
  })
else test.skipIf(true)('skipped azure: interpreter pools take minutes; set COFFERDAM_REQUIRE=all', () => {})

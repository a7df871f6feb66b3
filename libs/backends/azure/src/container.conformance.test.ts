/** Conformance of `azure` with the double's custom-container pool, which runs our image's first process. */
import { exerciseAzure } from '../test/places.ts'

await exerciseAzure('custom')

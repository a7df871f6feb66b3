/** Conformance of `azure` with a custom-container pool of the double, whose sessions really run our image’s first process. */
import { exerciseAzure } from '../test/places.ts'

await exerciseAzure('custom')

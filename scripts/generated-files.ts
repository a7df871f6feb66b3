/** The files that are generated from the code. scripts/check.ts compares and writes them. */
import { describeApi } from '../apps/api/src/index.ts'
import { pythonTypes } from '../clients/python/generate-types.ts'
import { apiPage } from './api-page.ts'
import type { ApiDocument } from './client-types.ts'
import { CLIENT_TYPES, clientTypesFile } from './client-types-file.ts'
import { configurationPage } from './configuration-page.ts'
import { errorsPage } from './errors-page.ts'
import { MADE } from './page-table.ts'
import { telemetryPage } from './telemetry-page.ts'

/** Path below the root → the content of that file. */
export const GENERATED_FILES: Readonly<Record<string, () => string | Promise<string>>> = {
  'docs/errors.md': errorsPage,
  'docs/reference/api.md': apiPage,
  'docs/reference/telemetry.md': () =>
    telemetryPage(
      MADE(
        'libs/telemetry/src/{catalog,metric-catalog,fleet-metric-facts,*log-records}.ts',
        'scripts/telemetry-page.ts',
      ),
    ),
  'docs/configuration.md': configurationPage,
  [CLIENT_TYPES]: clientTypesFile,
  'clients/python/cofferdam/types.py': async () =>
    pythonTypes((await describeApi()) as unknown as ApiDocument),
}

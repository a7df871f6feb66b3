/** The pages in docs/ that are generated from the code. scripts/check.ts compares and writes them. */
import { apiPage } from './api-page.ts'
import { configurationPage } from './configuration-page.ts'
import { errorsPage } from './errors-page.ts'
import { MADE } from './page-table.ts'
import { telemetryPage } from './telemetry-page.ts'

/** Path below the root → the content of that page. */
export const GENERATED_PAGES: Readonly<Record<string, () => string | Promise<string>>> = {
  'docs/errors.md': errorsPage,
  'docs/reference/api.md': apiPage,
  'docs/reference/telemetry.md': () =>
    telemetryPage(
      MADE(
        'libs/telemetry/src/{catalog,metric-catalog,log-records,dispatcher-log-records,backend-log-records}.ts',
      ),
    ),
  'docs/configuration.md': configurationPage,
}

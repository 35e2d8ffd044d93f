/* work SECONDS CODE: run for so long and exit with a code; task N of an array takes (10 + N % 5) / 10 of the time.
 *
 * Time in which the process is stopped (SIGSTOP) does not count.
 */
#include <stdlib.h>
#include <time.h>

#define SLICE .1

static double now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return time.tv_sec + time.tv_nsec / 1e9;
}

int main(int many, char **words)
{
	char *task = getenv("SLURM_ARRAY_TASK_ID");
	double left = many > 1 ? atof(words[1]) : 0, before = now();

	if (task)
		left *= (10 + atoi(task) % 5) / 10.;
	while (left > 0) {
		double slice = left < SLICE ? left : SLICE, after;
		struct timespec wait = {0, slice * 1e9};

		nanosleep(&wait, NULL);
		after = now();
		/* A slice that took much longer was stopped in between. */
		left -= after - before < 5 * SLICE ? after - before : slice;
		before = after;
	}
	return many > 2 ? atoi(words[2]) : 0;
}

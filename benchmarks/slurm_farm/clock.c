/* A clock that runs `factor` times as fast for all processes that are given the same FAST_CLOCK.
 *
 *   LD_PRELOAD=clock.so FAST_CLOCK="REAL MONOTONIC START FACTOR" slurmctld ...
 *
 * REAL and MONOTONIC are the two system clocks at one instant, START is the date shown then, all in seconds. A process
 * reads dates from START on, and every wait takes 1/FACTOR of its time. Nothing is kept between calls, so the clocks
 * of all daemons agree to the nanosecond.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#define SECOND 1000000000LL
typedef long long nanoseconds;
typedef struct timespec span;

static nanoseconds real, monotonic, start;
static double factor = 1;
static int fast, ready;

static void set_up(void)
{
	double now, since_boot, date, speed;
	char *text = getenv("FAST_CLOCK");

	if (ready)
		return;
	if (text && sscanf(text, "%lf %lf %lf %lf", &now, &since_boot, &date, &speed) == 4 && speed > 0) {
		real = now * 1e3 + .5, monotonic = since_boot * 1e3 + .5, start = date * 1e3 + .5;
		real *= 1000000, monotonic *= 1000000, start *= 1000000;
		factor = speed;
		fast = 1;
	}
	ready = 1;
}

__attribute__((constructor)) static void on_load(void) { set_up(); }

static nanoseconds count(const span *time) { return time->tv_sec * SECOND + time->tv_nsec; }

static span split(nanoseconds time)
{
	span parts = {0, 0};

	if (time > 0)
		parts.tv_sec = time / SECOND, parts.tv_nsec = time % SECOND;
	return parts;
}

/* A wait of the fast clock in real time; one that is not 0 stays above 0. */
static span shorter(const span *wait)
{
	nanoseconds time = count(wait) / factor;

	return split(time || !count(wait) ? time : 1);
}

/* The real date of an instant of the fast clock. */
static span real_date(const span *date) { return split(real + (nanoseconds)((count(date) - start) / factor)); }

/* The next function of this name: that of the C library. */
#define LIBRARY(result, name, ...)                        \
	static result (*library)(__VA_ARGS__);            \
	if (!library)                                     \
		library = dlsym(RTLD_NEXT, #name);        \
	set_up()

int clock_gettime(clockid_t clock, span *time)
{
	clockid_t source = clock == CLOCK_TAI ? CLOCK_REALTIME : clock;
	int failed;

	/* Slurm 24.11 stamps its timers with TAI and waits for real time: both become the one date. */
	set_up();
	failed = syscall(SYS_clock_gettime, fast ? source : clock, time);
	if (failed || !fast)
		return failed;
	if (source == CLOCK_REALTIME || source == CLOCK_REALTIME_COARSE)
		*time = split(start + (nanoseconds)(factor * (count(time) - real)));
	else if (source == CLOCK_MONOTONIC || source == CLOCK_MONOTONIC_COARSE || source == CLOCK_MONOTONIC_RAW ||
		 source == CLOCK_BOOTTIME)
		*time = split(monotonic + (nanoseconds)(factor * (count(time) - monotonic)));
	return 0;
}

time_t time(time_t *seconds)
{
	span now;

	clock_gettime(CLOCK_REALTIME, &now);
	if (seconds)
		*seconds = now.tv_sec;
	return now.tv_sec;
}

int gettimeofday(struct timeval *time, void *zone)
{
	span now;

	(void)zone;
	clock_gettime(CLOCK_REALTIME, &now);
	time->tv_sec = now.tv_sec, time->tv_usec = now.tv_nsec / 1000;
	return 0;
}

int nanosleep(const span *wait, span *left)
{
	span mine, rest = {0, 0};
	int failed;
	LIBRARY(int, nanosleep, const span *, span *);

	if (!fast)
		return library(wait, left);
	mine = shorter(wait);
	failed = library(&mine, &rest);
	if (failed && left)
		*left = split(count(&rest) * factor);
	return failed;
}

int clock_nanosleep(clockid_t clock, int flags, const span *wait, span *left)
{
	span mine, rest = {0, 0};
	int failed;
	LIBRARY(int, clock_nanosleep, clockid_t, int, const span *, span *);

	if (!fast)
		return library(clock, flags, wait, left);
	if (!(flags & TIMER_ABSTIME))
		mine = shorter(wait);
	else if (clock == CLOCK_REALTIME)
		mine = real_date(wait);
	else
		mine = split(monotonic + (nanoseconds)((count(wait) - monotonic) / factor));
	failed = library(clock, flags, &mine, &rest);
	if (failed && left && !(flags & TIMER_ABSTIME))
		*left = split(count(&rest) * factor);
	return failed;
}

unsigned sleep(unsigned seconds)
{
	span wait = {seconds, 0}, left = {0, 0};

	return nanosleep(&wait, &left) ? left.tv_sec + (left.tv_nsec > 0) : 0;
}

int usleep(useconds_t time)
{
	span wait = {time / 1000000, time % 1000000 * 1000L};

	return nanosleep(&wait, NULL);
}

int ppoll(struct pollfd *files, nfds_t many, const span *wait, const sigset_t *signals)
{
	span mine;
	LIBRARY(int, ppoll, struct pollfd *, nfds_t, const span *, const sigset_t *);

	if (!fast || !wait)
		return library(files, many, wait, signals);
	mine = shorter(wait);
	return library(files, many, &mine, signals);
}

int poll(struct pollfd *files, nfds_t many, int milliseconds)
{
	span wait = {milliseconds / 1000, milliseconds % 1000 * 1000000L};

	return ppoll(files, many, milliseconds < 0 ? NULL : &wait, NULL);
}

int select(int many, fd_set *readable, fd_set *writable, fd_set *other, struct timeval *wait)
{
	span whole, mine;
	struct timeval shown;
	LIBRARY(int, select, int, fd_set *, fd_set *, fd_set *, struct timeval *);

	if (!fast || !wait)
		return library(many, readable, writable, other, wait);
	whole.tv_sec = wait->tv_sec, whole.tv_nsec = wait->tv_usec * 1000;
	mine = shorter(&whole);
	shown.tv_sec = mine.tv_sec, shown.tv_usec = mine.tv_nsec / 1000;
	return library(many, readable, writable, other, &shown);
}

int epoll_wait(int epoll, struct epoll_event *events, int most, int milliseconds)
{
	LIBRARY(int, epoll_wait, int, struct epoll_event *, int, int);

	if (fast && milliseconds > 0)
		milliseconds = milliseconds / factor + 1;
	return library(epoll, events, most, milliseconds);
}

int pthread_cond_timedwait(pthread_cond_t *condition, pthread_mutex_t *mutex, const span *until)
{
	static int (*library)(pthread_cond_t *, pthread_mutex_t *, const span *);
	span mine;

	/* The C library has two of this name; the older one has another condition. */
	if (!library)
		library = dlvsym(RTLD_NEXT, "pthread_cond_timedwait", "GLIBC_2.3.2");
	set_up();
	if (!fast)
		return library(condition, mutex, until);
	mine = real_date(until);
	return library(condition, mutex, &mine);
}

int sem_timedwait(sem_t *semaphore, const span *until)
{
	span mine;
	LIBRARY(int, sem_timedwait, sem_t *, const span *);

	mine = fast ? real_date(until) : *until;
	return library(semaphore, &mine);
}

int pthread_mutex_timedlock(pthread_mutex_t *mutex, const span *until)
{
	span mine;
	LIBRARY(int, pthread_mutex_timedlock, pthread_mutex_t *, const span *);

	mine = fast ? real_date(until) : *until;
	return library(mutex, &mine);
}

int pthread_timedjoin_np(pthread_t thread, void **value, const span *until)
{
	span mine;
	LIBRARY(int, pthread_timedjoin_np, pthread_t, void **, const span *);

	mine = fast ? real_date(until) : *until;
	return library(thread, value, &mine);
}

unsigned alarm(unsigned seconds)
{
	span wait = {seconds, 0}, mine = fast ? shorter(&wait) : wait;
	struct itimerval next = {{0, 0}, {mine.tv_sec, mine.tv_nsec / 1000}}, last;

	if (seconds && !next.it_value.tv_sec && !next.it_value.tv_usec)
		next.it_value.tv_usec = 1;
	setitimer(ITIMER_REAL, &next, &last);
	return (last.it_value.tv_sec + (last.it_value.tv_usec > 0)) * (fast ? factor : 1);
}

/* From 24.05 on slurmctld delays its work by timers, on the clock of TAI. */
int timer_create(clockid_t clock, struct sigevent *event, timer_t *timer)
{
	LIBRARY(int, timer_create, clockid_t, struct sigevent *, timer_t *);

	return library(fast && clock == CLOCK_TAI ? CLOCK_REALTIME : clock, event, timer);
}

int timer_settime(timer_t timer, int flags, const struct itimerspec *next, struct itimerspec *last)
{
	struct itimerspec mine = {{0, 0}, {0, 0}};
	LIBRARY(int, timer_settime, timer_t, int, const struct itimerspec *, struct itimerspec *);

	if (!fast)
		return library(timer, flags, next, last);
	mine.it_interval = shorter(&next->it_interval);
	if (count(&next->it_value))
		mine.it_value = flags & TIMER_ABSTIME ? real_date(&next->it_value) : shorter(&next->it_value);
	return library(timer, flags, &mine, last);
}
